package main

import "github.com/urfave/cli/v2"

func genCommand(c *console) *cli.Command { return command(cli.Command{Name: "gen"}, "") }
