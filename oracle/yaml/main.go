// Command yaml converts documents with sigs.k8s.io/yaml, the library with which kubectl and the API server read
// manifests. It writes one JSON object per line: the document and its JSON, or the error.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

// Each scalar is converted as a value, as a key, in quotes and with tags.
var scalars = strings.Fields(`
y Y yes Yes YES yEs n N no No NO on On ON off Off OFF true True TRUE tRue false False FALSE
~ null Null NULL nULL nil .nan .NaN .NAN .Nan .inf .Inf .INF +.inf -.inf +.Inf -.INF .iNf << =
0 1 -1 +1 00 01 010 -010 +010 08 09 0o17 0O17 0o8 0x1f 0X1F 0xg 0x 0x-1 -0x1F +0x1f 0x1e3 0b11 0B11 0b2 0b 0b-11 0b+11 -0b11 -0b-1
0x_1 0_8 0b1_1 1_000 1__0 1_ _1 +_1 -_ + -- 0o_7 0_0
1e3 1E3 1e+3 1e-3 1.e3 1. .5 .5e3 .5_0 ._5 .5_ .1__2 . .. .e3 1.5 1.5.2 1e 1e+ +1.5 -1.5 +.5 -.5 1_.5 3.14_15 1e0_1 08.5 00.5 0e0 12e03
1e400 -1e400 .1e400 1e-400 1.0 10.0 1e6 1e20 1e22 0.1 0.30000000000000004 1.1e-5 -0 0.0
9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615 18446744073709551616
+9223372036854775808 0xffffffffffffffff 0x1ffffffffffffffff 99999999999999999999
1:30 190:20:30 2001-01-01 2001-1-1 2001-01-01T00:00:00Z 0x1.8p3 1p3 Infinity NaN inf nan 1n v1 1Gi 100m
`)

var tags = []string{"!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!foo", "!"}

// Documents that are more than a scalar.
var documents = []string{
	"", "# nothing\n", "a: b\n", "- a\n- - b\n", "a:\n- b\n-\n", "{a: 1, b: [c, 'd', \"e\"]}", "{\"a\":1}", "[a,]",
	"a: 'yes'\nb: \"010\"\nc: |\n  yes\nd: >-\n  010\n", "a: yes\n  no\n", "a:\n", "? a\n: b\n",
	"a: &x {b: 1}\nc: *x\n", "a: &x yes\n*x : b\n", "a: &x [*x]\n", "a: *x\n", "a: &x 1\nb: &x 2\nc: *x\n",
	"<<: {a: 1}\nb: 2\n", "a: 1\n<<: {a: 2}\n", "<<: {a: 2}\na: 1\n", "<<: [{a: 1}, {a: 2, b: 3}]\n", "<<: 3\n", "<<: [3]\n", "'<<': {a: 1}\n",
	"x: &x {a: 1}\ny: {<<: *x, b: 2}\n", "x: &x [{a: 1}]\ny: {<<: *x}\n",
	"a: 1\na: 2\n", "y: 1\ntrue: 2\n", "[a]: b\n", "{a: 1}: b\n", "~: a\n", "18446744073709551615: a\n",
	"a: !!binary aGVsbG8=\n", "a: !!binary |\n  aGVs\n  bG8=\n", "a: !!binary x\n", "a: !!set {b, c}\n", "a: !!map [b]\n", "a: !!str\n", "a: !!null\n",
	"a: .inf\nb: -.inf\nc: .nan\n", "\ta: 1\n", "a:\n\tb: 1\n", "a: 1\n\t\nb: 2\n", "a: 1 \t# b\n", "a: [b,\n\tc]\n", "a: |\n  b\n\n  \tc\n", "a: b: c\n", "a: [b\n", "a: 'b\n", "a: @b\n", "a: b\nc\n",
}

func main() {
	cases := documents
	for _, scalar := range scalars {
		cases = append(cases, "a: "+scalar+"\n", "- "+scalar+"\n", "{a: "+scalar+"}\n", scalar+": a\n", "a: '"+scalar+"'\n")
		for _, tag := range tags {
			cases = append(cases, "a: "+tag+" "+scalar+"\n")
		}
		cases = append(cases, "a: !!int \""+scalar+"\"\n")
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	for _, text := range cases {
		answer := map[string]any{"in": text}
		if out, err := yaml.YAMLToJSON([]byte(text)); err != nil {
			answer["error"] = err.Error()
		} else {
			answer["out"] = json.RawMessage(out)
		}
		if err := encoder.Encode(answer); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
