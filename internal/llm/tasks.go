package llm

import (
	"cmp"
	"context"
	"sync"
)

// TasksPerRequest is how many tasks are under way for each request that the endpoint is sent at once: while some wait
// for their tools, others ask.
const TasksPerRequest = 2

// TaskLimiter bounds how many tasks are under way.
type TaskLimiter struct {
	mu             sync.Mutex
	room           *sync.Cond // with mu: there may be room
	most, underWay int
}

// Tasks returns a limiter of the tasks whose requests the limiter l bounds: a fixed number of tasks, or with 0 so many
// as the limit of requests allows at the moment. changed is called with each change of that limit, before it has an
// effect on the tasks.
func (l *Limiter) Tasks(fixed int, changed func(LimitChange)) *TaskLimiter {
	t := newTaskLimiter(cmp.Or(fixed, TasksPerRequest*l.Limit()))
	l.Follow(func(c LimitChange) {
		changed(c)
		if fixed == 0 {
			t.allow(TasksPerRequest * c.To)
		}
	})
	return t
}

func newTaskLimiter(most int) *TaskLimiter {
	l := &TaskLimiter{most: max(most, 1)}
	l.room = sync.NewCond(&l.mu)
	return l
}

// allow changes how many tasks may be under way.
func (l *TaskLimiter) allow(most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = max(most, 1)
	l.room.Broadcast()
}

// Enter waits for room. Its error is that of the context.
func (l *TaskLimiter) Enter(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.room.Broadcast()
	})()
	l.mu.Lock()
	defer l.mu.Unlock()
	for ctx.Err() == nil && l.underWay >= l.most {
		l.room.Wait()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	l.underWay++
	return nil
}

// Leave makes room for another task.
func (l *TaskLimiter) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.underWay--
	l.room.Broadcast()
}
