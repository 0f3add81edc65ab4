package hubenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHubEnvironment: the token, the cache and the switches are found where the hub's own tools look for them.
func TestHubEnvironment(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	at := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	for name, content := range map[string]string{
		"home/.cache/huggingface/token": " hf_home\n", "hf/token": "hf_hf\n", "xdg/huggingface/token": "hf_xdg", "home/mine": "hf_mine\n", "empty": " \n", "folder/x": "",
	} {
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type env map[string]string
	home := at("home")
	cases := []struct {
		name         string
		env          env
		token, from  string
		cache, fails string
	}{
		{"nothing", env{}, "", "HF_TOKEN is not set, and there is no home to look in", "", ""},
		{"home", env{"HOME": home}, "hf_home", at("home/.cache/huggingface/token"), at("home/.cache/huggingface/hub"), ""},
		{"HF_TOKEN", env{"HOME": home, "HF_TOKEN": " hf_a\n", "HUGGING_FACE_HUB_TOKEN": "hf_b"}, "hf_a", "HF_TOKEN", at("home/.cache/huggingface/hub"), ""},
		{"HUGGING_FACE_HUB_TOKEN", env{"HOME": home, "HF_TOKEN": " ", "HUGGING_FACE_HUB_TOKEN": "hf_b"}, "hf_b", "HUGGING_FACE_HUB_TOKEN", at("home/.cache/huggingface/hub"), ""},
		{"HF_TOKEN_PATH", env{"HOME": home, "HF_TOKEN_PATH": at("hf/token"), "HF_HOME": at("xdg/huggingface")}, "hf_hf", at("hf/token"), at("xdg/huggingface/hub"), ""},
		{"HF_TOKEN_PATH below home", env{"HOME": home, "HF_TOKEN_PATH": "~/mine"}, "hf_mine", at("home/mine"), at("home/.cache/huggingface/hub"), ""},
		{"HF_HOME", env{"HOME": home, "HF_HOME": at("hf"), "XDG_CACHE_HOME": at("xdg")}, "hf_hf", at("hf/token"), at("hf/hub"), ""},
		{"HF_HOME below the working directory", env{"HOME": home, "HF_HOME": "hf"}, "hf_hf", at("hf/token"), at("hf/hub"), ""},
		{"HF_HOME below home", env{"HOME": at("hf"), "HF_HOME": "~"}, "hf_hf", at("hf/token"), at("hf/hub"), ""},
		{"a name that begins with ~", env{"HOME": home, "HF_HOME": "~hf"}, "", "neither in HF_TOKEN nor in '" + at("~hf/token") + "'", at("~hf/hub"), ""},
		{"XDG_CACHE_HOME", env{"HOME": home, "XDG_CACHE_HOME": at("xdg")}, "hf_xdg", at("xdg/huggingface/token"), at("xdg/huggingface/hub"), ""},
		{"HF_HUB_CACHE", env{"HOME": home, "HF_HUB_CACHE": "~/c", "HUGGINGFACE_HUB_CACHE": at("d")}, "hf_home", at("home/.cache/huggingface/token"), at("home/c"), ""},
		{"HUGGINGFACE_HUB_CACHE", env{"HOME": home, "HUGGINGFACE_HUB_CACHE": "d", "HF_HOME": at("hf")}, "hf_hf", at("hf/token"), at("d"), ""},
		{"a cache without a home", env{"HF_HUB_CACHE": at("c"), "HF_TOKEN": "hf_a"}, "hf_a", "HF_TOKEN", at("c"), ""},
		{"no token is wanted", env{"HOME": home, "HF_TOKEN": "hf_a", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, "", "HF_HUB_DISABLE_IMPLICIT_TOKEN is set", at("home/.cache/huggingface/hub"), ""},
		{"a token is wanted", env{"HOME": home, "HF_TOKEN": "hf_a", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "0"}, "hf_a", "HF_TOKEN", at("home/.cache/huggingface/hub"), ""},
		{"an empty file", env{"HOME": home, "HF_TOKEN_PATH": at("empty")}, "", at("empty") + " is empty", at("home/.cache/huggingface/hub"), ""},
		{"a file that is none", env{"HOME": home, "HF_TOKEN_PATH": at("folder")}, "", "", at("home/.cache/huggingface/hub"), `reading the hub's token in "` + at("folder") + `": `},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			caches := c.env["XDG_CACHE_HOME"]
			if home := c.env["HOME"]; caches == "" && home != "" {
				caches = filepath.Join(home, ".cache")
			}
			a := Environment{Getenv: func(name string) string { return c.env[name] }, Caches: caches}
			token, from, err := a.Token()
			if token != c.token || from != c.from || (err != nil) != (c.fails != "") || err != nil && !strings.HasPrefix(err.Error(), c.fails) {
				t.Errorf("token %q from %q, %v, want %q from %q, %q", token, from, err, c.token, c.from, c.fails)
			}
			if cache := a.Cache(); cache != c.cache {
				t.Errorf("cache %q, want %q", cache, c.cache)
			}
		})
	}
	for value, want := range map[string]bool{"": false, "0": false, "no": false, "off": false, "2": false, "1": true, "on": true, "Yes": true, "TRUE": true} {
		a := Environment{Getenv: func(name string) string { return map[string]string{"HF_HUB_OFFLINE": value}[name] }}
		if got := a.IsSet("HF_HUB_OFFLINE"); got != want || a.IsSet("TRANSFORMERS_OFFLINE") {
			t.Errorf("%q is %v, want %v", value, got, want)
		}
	}
	for value, want := range map[string]string{"": "https://huggingface.co", "https://hub.example/x": "https://hub.example/x"} {
		a := Environment{Getenv: func(name string) string { return map[string]string{"HF_ENDPOINT": value}[name] }}
		if got := a.Endpoint(); got != want {
			t.Errorf("the hub is %q, want %q", got, want)
		}
	}
}
