// Package all links every backend of this module into a program, so that
// coord.Open knows all schemes:
//
//	import _ "github.com/gocoord/coord/backend/all"
package all

import (
	_ "github.com/gocoord/coord/backend/etcd"      // etcd:// and etcds://
	_ "github.com/gocoord/coord/backend/memory"    // memory://
	_ "github.com/gocoord/coord/backend/socket"    // socket:// and unix://
	_ "github.com/gocoord/coord/backend/zookeeper" // zookeeper://, zk://, zookeepers:// and zks://
)
