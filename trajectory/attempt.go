package trajectory

// Attempt records the events of one attempt at one task. Several of its
// methods may run at once; order is the order of the calls.
type Attempt struct {
	Log    *Log
	TaskID string
	Number int // from 1
	Redact Redactor
}

// Append records payloads at a turn (0 for those outside of turns) and returns
// when they are durable.
func (a *Attempt) Append(turn int, payloads ...Payload) error {
	_, err := a.Log.Append(a.drafts(turn, payloads)...)
	return err
}

// Enqueue records payloads that need not be durable before the next step.
func (a *Attempt) Enqueue(turn int, payloads ...Payload) ([]string, error) {
	return a.Log.Enqueue(a.drafts(turn, payloads)...)
}

func (a *Attempt) drafts(turn int, payloads []Payload) []Draft {
	drafts := make([]Draft, len(payloads))
	for i, p := range payloads {
		drafts[i] = Draft{TaskID: a.TaskID, Attempt: a.Number, Turn: turn, Payload: p}
	}
	return drafts
}
