package store

import "context"

func openGS(ctx context.Context, s *site, rest string, o Options) (name string, err error) { return }
func openAZ(ctx context.Context, s *site, rest string, o Options) (name string, err error) { return }
func openHF(ctx context.Context, s *site, rest string, o Options) (name string, err error) { return }
