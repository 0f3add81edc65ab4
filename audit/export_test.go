package audit

// Without returns options with a rule, such as AUD-1.loader-output, that finds
// nothing.
func (o Options) Without(rule string) Options {
	o.off = rule
	return o
}
