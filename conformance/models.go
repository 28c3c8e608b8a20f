package conformance

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// The models say what one thing that does one operation at a time would
// answer. A history is right if its operations can be put in an order, each at
// some moment between its call and its return, in which the model agrees.

// An opKind is what a client did in a history.
type opKind uint8

const (
	opTake      opKind = iota // a claim was admitted
	opGive                    // it was released
	opDowngrade               // it went on as a reader
	opLoad
	opStore
)

// A lockOp is an operation on a lock or semaphore.
type lockOp struct {
	kind   opKind
	shared bool
	weight int64
	token  uint64
}

// A lockState is who holds a lock, and the greatest tokens so far.
type lockState struct {
	writer           bool
	readers          int
	token, writerTok uint64
}

// lockModel is a read/write lock. A writer's token is greater than all tokens
// before it, a reader's than those of all writers.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, op := state.(lockState), input.(lockOp)
		switch {
		case op.kind == opTake && op.shared:
			ok := !s.writer && op.token > s.writerTok
			s.readers++
			s.token = max(s.token, op.token)
			return ok, s
		case op.kind == opTake:
			ok := !s.writer && s.readers == 0 && op.token > s.token
			s.writer, s.token, s.writerTok = true, op.token, op.token
			return ok, s
		case op.kind == opDowngrade:
			ok := s.writer
			s.writer, s.readers = false, 1
			return ok, s
		case op.shared:
			s.readers--
			return s.readers >= 0, s
		default:
			ok := s.writer
			s.writer = false
			return ok, s
		}
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// semaphoreModel is a semaphore of so many permits.
func semaphoreModel(limit int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, _ any) (bool, any) {
			used, op := state.(int64), input.(lockOp)
			if op.kind == opGive {
				return used >= op.weight, used - op.weight
			}
			return used+op.weight <= limit, used + op.weight
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
	}
}

// A registerOp is a Load or a Store. All data ever stored is different, so that
// data stand for versions.
type registerOp struct {
	kind       opKind
	prev, data string
}

// An outcome is how a Store ended.
type outcome uint8

const (
	stored outcome = iota
	conflict
	unknown // perhaps done
)

// registerModel is a register with compare-and-set.
var registerModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{""} },
	Step: func(state, input, output any) []any {
		now, op := state.(string), input.(registerOp)
		if op.kind == opLoad {
			if output.(string) != now {
				return nil
			}
			return []any{now}
		}
		switch output.(outcome) {
		case stored:
			if now != op.prev {
				return nil
			}
			return []any{op.data}
		case conflict:
			if now == op.prev {
				return nil
			}
			return []any{now}
		default:
			if now == op.prev {
				return []any{now, op.data}
			}
			return []any{now}
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %v", input, output) },
}).ToModel()
