package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"slices"
	"strings"
)

// A mutant is one small change of a file.
type mutant struct {
	file, name  string // file, function, kind, and the number among those
	number      int    // in the test program, from 1
	first, last int    // lines that the mutant changes
	edits       []edit
}

// An edit replaces some bytes of a file, or none, with text. %d in text stands for the number of
// the mutant.
type edit struct {
	at, end int
	text    string
	closes  bool // it closes what an earlier edit of the mutant opened
}

// A finder collects the mutants of a file.
type finder struct {
	files          *token.FileSet
	file, function string
	text           []byte
	counts         map[string]int
	found          []*mutant
}

// find returns the mutants of a file's functions, outer ones first.
func find(name string, text []byte) ([]*mutant, error) {
	f := &finder{files: token.NewFileSet(), file: name, text: text, counts: map[string]int{}}
	tree, err := parser.ParseFile(f.files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, declaration := range tree.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && function.Body != nil {
			f.function = function.Name.Name
			if function.Recv != nil {
				f.function = strings.TrimLeft(f.source(function.Recv.List[0].Type), "*") + "." + f.function
			}
			f.returnEarly(function)
			ast.Inspect(function.Body, f.visit)
		}
	}
	return f.found, nil
}

func (f *finder) offset(at token.Pos) int { return f.files.Position(at).Offset }
func (f *finder) source(node ast.Node) string {
	return string(f.text[f.offset(node.Pos()):f.offset(node.End())])
}

func (f *finder) insert(at token.Pos, text string) edit {
	return edit{at: f.offset(at), end: f.offset(at), text: text}
}

func (f *finder) add(kind string, node ast.Node, edits ...edit) {
	name := f.file + " " + f.function + " " + kind
	f.counts[name]++
	first, last := f.files.Position(node.Pos()).Line, f.files.Position(node.End()).Line
	name = fmt.Sprintf("%s %d", name, f.counts[name])
	m := &mutant{file: f.file, name: name, first: first, last: last, edits: edits}
	f.found = append(f.found, m)
}

// around puts a node between two texts, and may replace the operator in the middle.
func (f *finder) around(kind string, node ast.Node, opens, closes string, middle ...edit) {
	ends := f.insert(node.End(), closes)
	ends.closes = true
	f.add(kind, node, append(middle, f.insert(node.Pos(), opens), ends)...)
}

// returnEarly makes a function return zero values at once.
func (f *finder) returnEarly(function *ast.FuncDecl) {
	var variables, values []string
	if results := function.Type.Results; results != nil && len(results.List[0].Names) == 0 {
		for i, result := range results.List {
			values = append(values, fmt.Sprintf("mutate%d", i))
			variables = append(variables, fmt.Sprintf("var %s %s; ", values[i], f.source(result.Type)))
		}
	}
	if body := function.Body; len(body.List) > 0 {
		text := strings.Join(variables, "") + "return " + strings.Join(values, ", ")
		f.add("return", function.Type, f.insert(body.Lbrace+1, "if mutateIs(%d) { "+text+" }; "))
	}
}

// operators are the kinds of operator mutants, and the helpers that replace the operators.
var operators = map[token.Token]string{
	token.LSS: "boundary Less", token.LEQ: "boundary LessEqual",
	token.GTR: "boundary Greater", token.GEQ: "boundary GreaterEqual",
	token.ADD: "arithmetic Add", token.SUB: "arithmetic Subtract",
}

func (f *finder) visit(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.GenDecl:
		return n.Tok != token.CONST
	case *ast.ArrayType:
		return false
	case *ast.IfStmt:
		f.negate(n.Cond)
	case *ast.ForStmt:
		f.negate(n.Cond)
	case *ast.SwitchStmt:
		for _, clause := range n.Body.List {
			if n.Tag == nil {
				f.negate(clause.(*ast.CaseClause).List...)
			}
		}
	case *ast.BlockStmt:
		f.drop(n.List)
	case *ast.CaseClause:
		f.drop(n.Body)
	case *ast.CommClause:
		f.drop(n.Body)
	case *ast.BasicLit:
		if n.Kind == token.INT && (n.Value == "0" || n.Value == "1") {
			f.around("constant", n, "mutateFlip(%d, ", ")")
		}
	case *ast.BinaryExpr:
		f.binary(n)
	}
	return true
}

// negate negates conditions, or the operands of && and || in them.
func (f *finder) negate(conditions ...ast.Expr) {
	for _, condition := range conditions {
		condition = ast.Unparen(condition)
		n, ok := condition.(*ast.BinaryExpr)
		if joins := ok && (n.Op == token.LAND || n.Op == token.LOR); condition != nil && !joins {
			f.around("negate", condition, "(mutateIs(%d) != (", "))")
		}
	}
}

func (f *finder) binary(n *ast.BinaryExpr) {
	if n.Op == token.LAND || n.Op == token.LOR {
		f.negate(n.X, n.Y)
	}
	for _, operand := range []ast.Expr{n.X, n.Y} {
		if literal, ok := operand.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			return
		}
	}
	if kind, helper, ok := strings.Cut(operators[n.Op], " "); ok {
		at := f.offset(n.OpPos)
		comma := edit{at: at, end: at + len(n.Op.String()), text: ","}
		f.around(kind, n, "mutate"+helper+"(%d, ", ")", comma)
	}
}

// drop removes statements, except for locking, which is a matter for the race detector.
func (f *finder) drop(statements []ast.Stmt) {
	for _, statement := range statements {
		switch s := statement.(type) {
		case *ast.ExprStmt, *ast.DeferStmt:
			text := f.source(s)
			if strings.HasPrefix(text, "panic(") || strings.HasSuffix(text, "ock()") {
				continue
			}
		case *ast.AssignStmt:
			named := func(e ast.Expr) bool { return f.source(e) != "_" }
			if s.Tok == token.DEFINE || !slices.ContainsFunc(s.Lhs, named) {
				continue
			}
		case *ast.IncDecStmt:
		default:
			continue
		}
		f.around("drop", statement, "if !mutateIs(%d) { ", " }")
	}
}

// choose selects mutants by the hash of their names, so that the choice is stable while the code
// is.
func choose(mutants []*mutant, seed string, count int) []*mutant {
	rank := func(m *mutant) uint64 {
		hash := fnv.New64a()
		hash.Write([]byte(m.name + seed))
		return hash.Sum64() * 0x9e3779b97f4a7c15 // FNV's high bits hardly depend on the last bytes
	}
	ranked := slices.Clone(mutants)
	slices.SortFunc(ranked, func(a, b *mutant) int { return cmp.Compare(rank(a), rank(b)) })
	return ranked[:min(count, len(ranked))]
}

// rewrite puts mutants into the text of their file, on the lines where they were.
func rewrite(text []byte, mutants []*mutant) []byte {
	var edits, closes []edit
	slices.SortFunc(mutants, func(a, b *mutant) int { return cmp.Compare(a.number, b.number) })
	for _, m := range mutants {
		for _, e := range m.edits {
			e.text = strings.ReplaceAll(e.text, "%d", fmt.Sprint(m.number))
			if e.closes {
				closes = append([]edit{e}, closes...) // the inner ones first
			} else {
				edits = append(edits, e)
			}
		}
	}
	edits = append(closes, edits...)
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	var out []byte
	done := 0
	for _, e := range edits {
		out = append(append(out, text[done:e.at]...), e.text...)
		done = e.end
	}
	return append(out, text[done:]...)
}
