//go:build !race

package submit

// thin is by how much the long walks are thinned out.
const thin = 1
