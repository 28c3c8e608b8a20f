package cli

import (
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gocoord/coord/backend"
)

// A scheme is what --json prints of one.
type scheme struct {
	Scheme     string      `json:"scheme"`
	Doc        string      `json:"doc"`
	Form       string      `json:"form"`
	Example    string      `json:"example"`
	Parameters []parameter `json:"parameters"`
}

type parameter struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	Doc     string `json:"doc"`
}

func (a *app) urlsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "urls [SCHEME]",
		Short:   "List the kinds of services, their URLs and parameters",
		Long:    urlsLong,
		Example: "  coord urls\n  coord urls etcd\n  coord urls --json | jq -r '.[].form'",
		RunE: func(cmd *cobra.Command, args []string) error {
			known := backend.Schemes()
			switch {
			case len(args) > 1:
				return usage("%s takes one scheme at most, and got %d", cmd.CommandPath(), len(args))
			case len(args) == 1 && !slices.Contains(known, args[0]):
				return usage("unknown scheme %q; there are %s", args[0], strings.Join(known, ", "))
			case len(args) == 1:
				known = args
			}
			return a.urls(known, asJSON)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return backend.Schemes(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) urls(names []string, asJSON bool) error {
	all := make([]scheme, 0, len(names))
	for _, name := range names {
		d, _ := backend.Lookup(name)
		params, err := backend.Params(name)
		if err != nil {
			return err
		}
		s := scheme{Scheme: name, Doc: d.Doc, Form: d.Form, Example: d.Example, Parameters: make([]parameter, 0, len(params))}
		for _, p := range params {
			s.Parameters = append(s.Parameters, parameter(p))
		}
		all = append(all, s)
	}
	if asJSON {
		a.printJSON(all)
		return nil
	}
	for i, s := range all {
		if i > 0 {
			a.say("")
		}
		a.say("%s\n    %s\n    for example %s", s.Form, s.Doc, s.Example)
		for _, p := range s.Parameters {
			def := ""
			if p.Default != "" {
				def = " (default " + p.Default + ")"
			}
			a.say("    ?%s=…%s: %s", p.Name, def, p.Doc)
		}
	}
	return nil
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			a.say("coord %s %s %s/%s, with %s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
				strings.Join(backend.Schemes(), ", "))
			return nil
		},
	}
}

// version is the module's, as the go command recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
