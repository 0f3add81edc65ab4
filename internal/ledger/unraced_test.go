//go:build !race

package ledger_test

// thin is by how much the long walks are thinned out.
const thin = 15
