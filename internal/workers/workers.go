// Package workers has the tasks of a plan done by workers on many machines.
//
// A [Server] holds the key of the plan. It lets the fresh key of each worker that joins sign a journal, keeps a copy of
// that journal, and counts for each task the first valid claim. A worker ([Join]) does tasks in its own run: it
// sends the lines of a finished task, and claims the task when the server has them on disk. A claim counts only if the
// copy commits the task below a head that the worker's key signed, so the evidence rests on files alone. The queue may
// forget everything (TestFaults).
//
// Keys of models, gold answers and salts are in no message (TestNothingTravels). What a worker sends is checked line by
// line as a verifier checks it, and one that sends anything else is refused for good (TestHostile).
package workers
