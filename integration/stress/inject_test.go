package stress

import "errors"

func partInject(args []string) error { return errors.New("not yet") }
