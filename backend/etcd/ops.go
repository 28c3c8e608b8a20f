package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Operations that only lack their key. To make one anew, clientv3 applies each
// option three times over, which shows beside the time that etcd itself takes.
var (
	getKey     = clientv3.OpGet("-", clientv3.WithKeysOnly())
	getLine    = clientv3.OpGet("-", clientv3.WithPrefix())
	getLast    = clientv3.OpGet("-", clientv3.WithLastCreate()...)
	getLastKey = clientv3.OpGet("-", append(clientv3.WithLastCreate(), clientv3.WithKeysOnly())...)
	deleteKey  = clientv3.OpDelete("-")
)

// on completes an operation on a key.
func on(op clientv3.Op, key string) clientv3.Op {
	op.WithKeyBytes([]byte(key))
	return op
}

// below completes an operation on all keys with a prefix.
func below(op clientv3.Op, prefix string) clientv3.Op {
	op.WithKeyBytes([]byte(prefix))
	clientv3.WithPrefix()(&op)
	return op
}

// Conditions of transactions. They are filled in here, since clientv3.Compare
// copies what it is given.

func absent(key string) clientv3.Cmp { return present(key, 0) }

func present(key string, rev int64) clientv3.Cmp {
	c := clientv3.CreateRevision(key)
	c.GetCompare().TargetUnion = &etcdserverpb.Compare_CreateRevision{CreateRevision: rev}
	return c
}

// modified is the condition that the last change of a key is of that revision.
func modified(key string, rev int64) clientv3.Cmp {
	c := clientv3.ModRevision(key)
	c.GetCompare().TargetUnion = &etcdserverpb.Compare_ModRevision{ModRevision: rev}
	return c
}

// txn makes a transaction.
func (b *Backend) txn(ctx context.Context, conditions []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	return b.client.Txn(ctx).If(conditions...).Then(then...).Else(otherwise...).Commit()
}
