// Package testenv starts the real servers that the tests of this module talk
// to, and puts the network between them and the code under test into the hands
// of the test.
//
// [Etcd] starts an etcd cluster of one or three nodes for one test and
// [SharedEtcd] one that all tests of a package use, [NewZooKeeper] and
// [SharedZooKeeper] do the same with ZooKeeper; [NewProxy] stands between a
// client and a server and cuts, mutes or delays what they say. Nothing here is
// replaced by a fake and nothing is skipped when it is missing: the binaries are
// built from the versions pinned in the nested module in the directory etcd, and
// a test fails with the output of the build if they cannot be.
//
// All traffic stays on the loopback interface, and no process outlives the test
// binary (on Linux and FreeBSD not even when that is killed).
//
// The package is for tests only. It depends on nothing but the standard library
// so that it adds no requirement to the module.
package testenv
