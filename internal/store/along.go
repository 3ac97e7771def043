package store

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// partsAhead is how many parts of a list are asked for before they are wanted.
const partsAhead = 64

// A listed is a part of a list, as far as there is no error.
type listed struct {
	objects []Object
	err     error
}

// ListAlong implements [Store].
func (s *site) ListAlong(ctx context.Context, prefix string, marks []string, yield func(Object) error) error {
	if s.pages == nil || s.sorts || len(marks) == 0 {
		return s.List(ctx, prefix, yield)
	}
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	parts := make(chan chan listed, partsAhead)
	asking.Go(func() {
		defer close(parts)
		bounds := slices.Concat([]string{""}, marks, []string{""})
		for i, to := range bounds[1:] {
			part := make(chan listed, 1)
			select {
			case parts <- part:
				asking.Go(func() { part <- s.between(ctx, prefix, bounds[i], to) })
			case <-ctx.Done():
				return
			}
		}
	})
	for part := range parts {
		p := <-part
		for _, o := range p.objects {
			if err := yield(o); err != nil {
				return err
			}
		}
		if p.err != nil {
			return p.err
		}
	}
	if ctx.Err() != nil {
		return ended(ctx, s.URL(prefix))
	}
	return nil
}

var errPast = errors.New("past the end of a part")

// between lists the objects after a name, to and with another; "" is no bound. What a store adds
// that does not know how to begin after a name is left out.
func (s *site) between(ctx context.Context, prefix, after, to string) (part listed) {
	part.err = s.list(ctx, prefix, s.pages(prefix, after), s.inOrder(prefix, func(o Object) error {
		if to != "" && o.Name > to {
			return errPast
		}
		if o.Name > after {
			part.objects = append(part.objects, o)
		}
		if o.Name == to {
			return errPast
		}
		return nil
	}))
	if part.err == errPast {
		part.err = nil
	}
	return part
}
