// Package history keeps what many runs did: a row for each attempt, in Parquet, which DuckDB, pandas and
// polars read.
//
// A [Store] is a folder. Of each run that was verified it has MANIFEST-DIGEST.parquet, whose rows are run
// events with the members that docs/ledger.md lists, all numbers integers, and whose metadata has the rest of what is
// counted of a run. Beside it is a DSSE envelope for each place where the run is or was, signed with the
// user's key, which holds the digest of the Parquet file. Both are checked whenever they are read. Without a
// good pair a run is read again; of a run that was removed it is an error (TestStore).
//
// An [Export] has the same schema: a Parquet file of events of several runs, and its envelope. What others
// exported is from outside. It is verified first, and then read in a process with limits of memory
// and time by [Convert] (TestConvert).
package history
