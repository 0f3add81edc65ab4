package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestCodeRules: what code does fires, and what it only says does not.
func TestCodeRules(t *testing.T) {
	own := free
	own.AnswerSources = []string{"answers.example", "mirror.example/gold/2023"}
	own.Commands, own.Packages = []string{"Teleport"}, []string{"Answer_Kit"}
	for _, tc := range []struct{ code, rule, what string }{
		// R001
		{`open("https://huggingface.co/datasets/gaia-benchmark/GAIA")`, "R001", "(A01)"},
		{`u = "https://huggingface.co/" + "datasets/" "gaia-benchmark/GAIA"`, "R001", "(A01)"},
		{`u = ("https://huggingface.co/"
		      "datasets/gaia-benchmark/GAIA") # the place`, "R001", "(A01)"},
		{`u = "https://hf.example/d\x61tasets/gaia-\u0062enchmark/x"`, "R001", "(A01)"},
		{`load("gaia-benchmark/GAIA", "2023_all")`, "R001", "(gaia-benchmark)"},
		{`load("Gaia%2Dbenchmark/" + name)`, "R001", "(gaia-benchmark)"},
		{`list_datasets(author="gaia-benchmark")`, "R001", "(gaia-benchmark)"},
		{`os.system("hub download gaia-benchmark/GAIA")`, "R001", "(gaia-benchmark)"},
		{`x = 1 # load("gaia-benchmark/GAIA")`, "", ""},
		{`print("who keeps gaia-benchmark?", 'the "gaia-benchmark", (gaia-benchmark)')`, "", ""},
		{`open("my-gaia-benchmark/notes.txt")`, "", ""},
		{`p = os.path.join(home, "datasets--gaia-benchmark--GAIA", "refs")`, "R001", "(A02)"},
		{`get("https://www.answers.example:8443/x?q=1")`, "R001", "(answers.example)"},
		{`get("https://proxy.example/?u=https%3A%2F%2Fmirror.example%2Fgold%2F2023%2Fa.json")`, "R001", "(mirror.example/gold/2023)"},
		{`get("https://mirror.example/gold/20234/a.json")`, "", ""},
		{`get("https://notanswers.example/")`, "", ""},
		{`# https://huggingface.co/datasets/gaia-benchmark/GAIA` + "\nx = 1", "", ""},
		{`print("the gaia-benchmark people")`, "", ""},
		{`open("gaia/metadata.csv")`, "", ""},

		// R002
		{`open("../../judgments.jsonl").read()`, "R002", "(judgments.jsonl)"},
		{`open("data/../../manifest.json")`, "R002", "(manifest.json)"},
		{`open("/srv/runs/exp1/results.jsonl")`, "R002", "(results.jsonl)"},
		{`open("~/runs/x/../exp1/./results.jsonl")`, "R002", "(results.jsonl)"},
		{`open(r"C:\runs\x\summary.json")`, "R002", "(summary.json)"},
		{`open(f"{d}/../manifest.json")`, "R002", "(manifest.json)"},
		{`open("results.jsonl")`, "", ""},
		{`pd.read_json('runs/exp1/results.jsonl')`, "", ""},
		{`open('./runs/exp1/../exp2/results.jsonl')`, "", ""},
		{`open('ext/../manifest.json'); open('a/b/../../manifest.json')`, "", ""},

		// R003
		{`open("/proc/self/environ").read()`, "R003", "(proc/self/environ)"},
		{`open(f"/proc/{os.getppid()}/environ")`, "R003", "(proc/{}/environ)"},
		{`open("/proc/" + str(pid) + "/mem")`, "", ""},
		{`os.path.join("/proc", str(pid), "environ")`, "R003", "(proc/{}/environ)"},
		{`"/".join(["", "proc", "1", "task", "1", "mem"])`, "R003", "(proc/1/task/1/mem)"},
		{`Path("/proc") / "self" / "environ"`, "R003", "(proc/self/environ)"},
		{`Path.home() / ".ssh" / "config"`, "R003", "(.ssh)"},
		{`os.system("cat ~/.netrc")`, "R003", "(.netrc)"},
		{`open(os.path.expanduser("~/.aws/credentials"))`, "R003", "(.aws/credentials)"},
		{`open("/home/x/.ssh/../.ssh/id_ed25519")`, "R003", "(.ssh)"},
		{`os.environ["OPENAI_API_KEY"]`, "R003", "(OPENAI_API_KEY)"},
		{`os.getenv('HF_' 'TOKEN')`, "R003", "(HF_TOKEN)"},
		{`os.system("echo ${HF_TOKEN}")`, "R003", "(HF_TOKEN)"},
		{`os.system("printenv GAIA_SIGNING_KEY")`, "R003", "(GAIA_SIGNING_KEY)"},
		{`os.environ.get(b"AWS_SECRET_ACCESS_KEY")`, "R003", "(AWS_SECRET_ACCESS_KEY)"},
		{`urlopen("http://169.254.169.254/latest/meta-data/")`, "R003", "(169.254.169.254)"},
		{`urlopen("http://[fd00:ec2::254]/")`, "R003", "(fd00/ec2/254)"},
		{`urlopen("http://metadata.google.internal./computeMetadata/v1/")`, "R003", "(metadata.google.internal)"},
		{`s.connect(("100.100.100.200", 80))`, "R003", "(100.100.100.200)"},
		{`open("/proc/cpuinfo"); open("/proc/meminfo"); open("/proc/self/status")`, "", ""},
		{`open("proc/data/mem"); open("credentials.csv"); open("environ")`, "", ""},
		{`open("file:///home/x/.ssh/id_rsa")`, "R003", "(.ssh)"},
		{`os.system("curl2 https://a.example/ ~/.ssh/config")`, "R003", "(.ssh)"},
		{`for u in ['http://ssh.example/id_rsa', 'HTTPS://a.example/.ssh/x']: print(u)`, "", ""},
		{`open("id_rsa.pub")`, "", ""},
		{`print("the address 169.254.169.254 is link-local")`, "", ""},
		{`print("set OPENAI_API_KEY first")`, "", ""},
		{`os.environ.get("HOME"); os.getcwd()`, "", ""},
		{`# os.environ["OPENAI_API_KEY"]`, "", ""},

		// R004
		{`subprocess.run(["curl", "-s", url])`, "R004", "(curl)"},
		{`subprocess.run(["/usr/bin/curl", url])`, "R004", "(curl)"},
		{`subprocess.run("ls | sudo tee x", shell=True)`, "R004", "(sudo)"},
		{`subprocess.Popen(args=("docker", "ps"))`, "R004", "(docker)"},
		{`subprocess.run([x], executable="/bin/su")`, "R004", "(su)"},
		{`from os import system as s; system("nc -l 80")`, "R004", "(nc)"},
		{`os.execvp("ssh", ["ssh", host])`, "R004", "(ssh)"},
		{`os.spawnlp(os.P_WAIT, "wget", "wget", url)`, "R004", "(wget)"},
		{`os.popen(f"mount {dev} /mnt")`, "R004", "(mount)"},
		{`ｏｓ.ｓｙｓｔｅｍ("mount")`, "R004", "(mount)"},
		{`os.system("c" + "url x")`, "R004", "(curl)"},
		{`os.system('c""url x')`, "R004", "(curl)"},
		{`os.system("true && (cd /; unshare -r sh)")`, "R004", "(unshare)"},
		{`os.system("echo $(nsenter -t 1)")`, "R004", "(nsenter)"},
		{`os.system("echo \"` + "`gdb -p 1`" + `\"")`, "R004", "(gdb)"},
		{`os.system("A=1 env -i timeout 5 strace -p 1")`, "R004", "(strace)"},
		{`os.system("sh -ec 'bwrap --bind / / sh'")`, "R004", "(bwrap)"},
		{`subprocess.run(["bash", "-lc", "ls; podman ps"])`, "R004", "(podman)"},
		{`subprocess.run([sys.executable, "-c", "import os; os.system('ncat x 1')"])`, "R004", "(ncat)"},
		{`os.system("find . -exec scp {} host: ;")`, "R004", "(scp)"},
		{`cmd = ["socat", "-"]` + "\n" + `subprocess.check_output(cmd)`, "R004", "(socat)"},
		{`cmd = "rsync a b"` + "\n" + `os.system(cmd)`, "R004", "(rsync)"},
		{`a = "telnet x"; b = a; subprocess.call(b.split())`, "R004", "(telnet)"},
		{`subprocess.run(shlex.split("ftp x"))`, "R004", "(ftp)"},
		{`exec("import os\nos.system('doas ls')")`, "R004", "(doas)"},
		{`x = f"{os.system('chroot /')}"`, "R004", "(chroot)"},
		{`x = f"{d["a"]} {os.system("chroot /")}"`, "R004", "(chroot)"},
		{"!curl -s x", "R004", "(curl)"},
		{"%%bash\nls\nwget x", "R004", "(wget)"},
		{`if x: os.system("reboot")`, "R004", "(reboot)"},
		{`os.system("mkfs.ext4 /dev/sda")`, "R004", "(mkfs.ext4)"},
		{`os.system("rm -rf /")`, "R004", "(rm -rf /)"},
		{`os.system("rm -r --force ~/*")`, "R004", "(rm -rf /)"},
		{`shutil.rmtree("/")`, "R004", "(rm -rf /)"},
		{`os.system(":(){ :|:& };:")`, "R004", "(fork bomb)"},
		{`os.system("boom() { boom | boom & }; boom")`, "R004", "(fork bomb)"},
		{"while True:\n    os.fork()", "R004", "(fork bomb)"},
		{`os.environ["LD_PRELOAD"] = "./x.so"`, "R004", "(LD_PRELOAD)"},
		{`subprocess.run(["ls"], env=dict(LD_AUDIT="x"))`, "R004", "(LD_AUDIT)"},
		{`os.system("LD_PRELOAD=./x.so ls")`, "R004", "(LD_PRELOAD)"},
		{`open("lib/sitecustomize.py", "w")`, "R004", "(sitecustomize)"},
		{`import usercustomize`, "R004", "(usercustomize)"},
		{`os.system("teleport x")`, "R004", "(teleport)"},
		{strings.Repeat("(", 201) + strings.Repeat(")", 201), "R004", "(brackets in more than 200 others)"},
		{`os.system(">out curl x")`, "R004", "(curl)"},
		{`os.system("2>err curl x")`, "R004", "(curl)"},
		{`os.system("2>&1 >>out <in curl x")`, "R004", "(curl)"},
		{`os.system("cat <(curl x) > 'a b'")`, "R004", "(curl)"},
		{`os.system("ls >$(curl x)")`, "R004", "(curl)"},
		{`os.system("ls >| out; <<<x curl x")`, "R004", "(curl)"},
		{`os.system("env -u A curl x")`, "R004", "(curl)"},
		{`os.system("env -iu A --chdir / B=1 curl x")`, "R004", "(curl)"},
		{`subprocess.run(["env", "-S", "curl x"])`, "R004", "(curl)"},
		{`os.system("stdbuf -o L curl x")`, "R004", "(curl)"},
		{`os.system("ls | xargs -I {} curl {}")`, "R004", "(curl)"},
		{`os.system("ls | xargs -0n 1 nice -n 5 curl")`, "R004", "(curl)"},
		{`os.system("timeout -k 1 .5 ionice -c 3 curl x")`, "R004", "(curl)"},
		{`os.system("watch -n 5 curl x")`, "R004", "(curl)"},
		{`os.system("watch 'ls; curl x'")`, "R004", "(curl)"},
		{`os.system("script -qc 'curl x' out")`, "R004", "(curl)"},
		{`os.system("script -c 'curl x'")`, "R004", "(curl)"},
		{`os.system("parallel -j 4 curl ::: x")`, "R004", "(curl)"},
		{`os.system("parallel ::: 'curl x'")`, "R004", "(curl)"},
		{`os.system("flock -w 1 lock -c 'curl x'")`, "R004", "(curl)"},
		{`os.system("trap 'curl x' EXIT")`, "R004", "(curl)"},
		{`os.system("function f { curl x; }; f")`, "R004", "(curl)"},
		{`os.system("$'curl' x")`, "R004", "(curl)"},
		{`os.system(r"$'\x63\165rl' x")`, "R004", "(curl)"},
		{`os.system('$"curl" x')`, "R004", "(curl)"},
		{`os.system("ls > curl 2>wget; sort <ssh; command -v curl; env -u mount ls")`, "", ""},
		{`os.system("timeout 5 grep curl notes.txt; xargs -a names grep -l mount; watch grep ssh x")`, "", ""},
		{`os.system(r"echo $'a; curl\'s'")`, "", ""},
		{"from subprocess import run as go\ngo(['curl', 'x'])", "R004", "(curl)"},
		{"def f(): go(['curl', 'x'])\nfrom subprocess import (PIPE,\n  run as go)\nf()", "R004", "(curl)"},
		{"from subprocess import *\nrun('curl x', shell=True)", "R004", "(curl)"},
		{"import os, subprocess as sp\nsp.run(['curl', 'x'])", "R004", "(curl)"},
		{"f = subprocess.check_output\nf('wget x', shell=True)", "R004", "(wget)"},
		{"s = subprocess; go = s.run; go('wget x', shell=True)", "R004", "(wget)"},
		{"go = subprocess.run\ngo = model.run\ngo('wget x', shell=True)", "R004", "(wget)"},
		{`getattr(os, 'system')('curl x')`, "R004", "(curl)"},
		{`f = getattr(os, 'sys' 'tem'); f('curl x')`, "R004", "(curl)"},
		{`__import__('subprocess').run(['curl', 'x'])`, "R004", "(curl)"},
		{`m = __import__('subprocess'); m.run(['curl', 'x'])`, "R004", "(curl)"},
		{`sys.modules['subprocess'].call('curl x', shell=True)`, "R004", "(curl)"},
		{`for c in ['ls', 'curl x']: os.system(c)`, "R004", "(curl)"},
		{"all = ('ls', 'curl x')\nfor c in all:\n    os.system(c)", "R004", "(curl)"},
		{"for c in [['ls'], ['curl', 'x']]:\n    subprocess.run(c)", "R004", "(curl)"},
		{`[os.system(c) for c in ['ls', 'curl x']]`, "R004", "(curl)"},
		{`subprocess.run(**{'check': True, 'args': ['curl', 'x']})`, "R004", "(curl)"},
		{"while(True): os.fork()", "R004", "(fork bomb)"},
		{"from os import fork as f\nwhile 1: f()", "R004", "(fork bomb)"},
		{"from shutil import rmtree as r; r('/')", "R004", "(rm -rf /)"},
		{`model.run('mount everest'); simulator.run("su"); turing.run('halt')`, "", ""},
		{`tm.run('reboot the system'); self.engine.call('ssh'); enemies.spawn('nc')`, "", ""},
		{"def call(x): print(x)\ncall('halt')", "", ""},
		{"from machine import run\nrun('halt')", "", ""},
		{"import machine as m\nm.run('halt')\nf = m.run\nf('halt')", "", ""},
		{`getattr(model, 'run')('halt'); getattr(os, 'sep')`, "", ""},
		{`subprocess.run(**{'input': 'sudo', 'args': ['ls', 'mount']})`, "", ""},
		{`for word in ['curl', 'ssh']: print(word)`, "", ""},
		{`for f in ['curl.txt', 'mount']: subprocess.run(['wc', f])`, "", ""},
		{"while x: pid = os.fork()", "", ""},
		{`subprocess.run(["python3", "task.py"]); subprocess.run(["ls"]); subprocess.run(["wc", "-l", "table.csv"])`, "", ""},
		{`subprocess.run([sys.executable, "mount.py"]); subprocess.run([tool, "mount"])`, "", ""},
		{`subprocess.run(["grep", "-c", "curl", "notes.txt"], cwd="docker", input="sudo")`, "", ""},
		{`os.system("grep curl notes.txt | sort > mount")`, "", ""},
		{`os.system("echo 'a; curl b'") # curl`, "", ""},
		{`# os.system("curl x")`, "", ""},
		{`s = """` + "\n" + `os.system("curl x")` + "\n" + `"""`, "", ""},
		{`words = ["curl", "wget"]; print("curl is a tool", words)`, "", ""},
		{`mount = 3; ssh = mount + 1; su(ssh)`, "", ""},
		{`asyncio.run(search("docker"))`, "", ""},
		{`re.compile("import datasets")`, "", ""},
		{`pid = os.fork()`, "", ""},
		{`print("what does LD_PRELOAD do?")`, "", ""},
		{`os.system("rm -rf ./build"); shutil.rmtree("tmp")`, "", ""},
		{`print("judge cache county")`, "", ""},
		{strings.Repeat("(", 200) + strings.Repeat(")", 200), "", ""},

		// R005
		{"import datasets", "R005", "(datasets)"},
		{"import os, numpy as np, datasets.load as d", "R005", "(datasets)"},
		{"from huggingface_hub import (\n  snapshot_download,\n)", "R005", "(huggingface-hub)"},
		{"try:\n    from smolagents.tools import x\nexcept E: pass", "R005", "(smolagents)"},
		{"if 1: import inspect_evals", "R005", "(inspect-evals)"},
		{`m = __import__("datasets")`, "R005", "(datasets)"},
		{`importlib.import_module("inspect_ai" ".model")`, "R005", "(inspect-ai)"},
		{`subprocess.run([sys.executable, "-m", "pip", "install", "-q", "datasets[vision]>=2"])`, "R005", "(datasets)"},
		{`os.system("pip3 install --user HuggingFace.Hub")`, "R005", "(huggingface-hub)"},
		{`os.system("uv pip install git+https://code.example/x/smolagents.git")`, "R005", "(smolagents)"},
		{"%pip install hf_transfer", "R005", "(hf-transfer)"},
		{`pip.main(["install", "lm_eval"])`, "R005", "(lm-eval)"},
		{`eval("__import__('kagglehub')")`, "R005", "(kagglehub)"},
		{`subprocess.run(["python3", "-m", "smolagents"])`, "R005", "(smolagents)"},
		{"import answer_kit", "R005", "(answer-kit)"},
		{"x = 1 #\rimport datasets", "R005", "(datasets)"},
		{"x = 1 # a\r\nimport datasets", "R005", "(datasets)"},
		{"x = 1; \\\r\nimport datasets", "R005", "(datasets)"},
		{"\ufeffimport datasets", "R005", "(datasets)"},
		{"# import datasets\r\nx = 1\r", "", ""},
		{"from importlib import import_module as m; m('datasets')", "R005", "(datasets)"},
		{"load = importlib.import_module; load('datasets')", "R005", "(datasets)"},
		{"import numpy, pandas, csv, json", "", ""},
		{"from sklearn import datasets", "", ""},
		{"from sklearn import svm, datasets", "", ""},
		{"from . import datasets\nfrom .datasets import x", "", ""},
		{"import torchvision.datasets as datasets", "", ""},
		{"datasets = [1, 2]; print(datasets)", "", ""},
		{`# import datasets` + "\n" + `s = "import datasets"`, "", ""},
		{`os.system("pip install numpy datasets-of-mine")`, "", ""},
		{"def f():\n  yield from datasets\nraise X from datasets", "", ""},
		{`open("data.csv")`, "", ""},
	} {
		d := Decide(own, Call{Tool: "python", Known: true, Code: []string{tc.code}})
		var want []string
		if tc.rule != "" {
			want = []string{tc.rule}
		}
		if !slices.Equal(d.RuleIDs, want) || !strings.HasSuffix(d.Reason, tc.what) {
			t.Errorf("%s\n\tgives %v %q, want %s %s", tc.code, d.RuleIDs, d.Reason, tc.rule, tc.what)
		}
	}
}

// TestBrokenLines: lines that a shell refuses, or runs in part, are read all the same.
func TestBrokenLines(t *testing.T) {
	for _, line := range []string{"ls; ; curl x", "curl x )", ") curl x", "if true; then curl x", "bash <<END\ncurl x", "cat <<END\n$(curl x)",
		"ls ||| curl x", "echo ${x; curl x", "((((; curl x", "echo $((1+; curl x", "ls &&\n&& curl x", "; curl x", "echo \"$(curl x", "echo `curl x",
		"case x in\ny) curl x", "{ curl x", "(Get-Item x).Name; curl x", strings.Repeat("$(", 1000) + "curl x", "curl x 'unfinished"} {
		if d := Decide(free, Call{Tool: "docs__run", Known: true, Lines: []string{line}}); !slices.Equal(d.RuleIDs, []string{Commands}) {
			t.Errorf("%.40q gives %v", line, d.RuleIDs)
		}
	}
}

// TestLongCode: what is too long to be read does not run.
func TestLongCode(t *testing.T) {
	const reason = "the code is longer than 262144 bytes, which is more than is read: write it in parts"
	for _, tc := range []struct {
		code string
		want Decision
	}{
		{strings.Repeat("#", 256<<10), Decision{Verdict: Allow}},
		{strings.Repeat("#", 256<<10+1), Decision{Verdict: Deny, Reason: reason}},
		{"import datasets\n" + strings.Repeat("#", 256<<10), Decision{Verdict: Deny, Reason: reason}},
	} {
		if diff := cmp.Diff(tc.want, Decide(free, Call{Tool: "python", Known: true, Approved: true, Code: []string{"x = 1", tc.code}})); diff != "" {
			t.Error(diff)
		}
	}
}

// TestSecretPlaces: what a tool would open or fetch.
func TestSecretPlaces(t *testing.T) {
	for _, tc := range []struct {
		call Call
		want string
	}{
		{Call{Paths: []string{"/proc/1/environ"}}, "proc/1/environ"},
		{Call{Paths: []string{`C:\Users\x\.ssh\known_hosts`}}, ".ssh"},
		{Call{Paths: []string{"../../.aws/Credentials"}}, ".aws/credentials"},
		{Call{Paths: []string{"/etc/gshadow"}}, "etc/gshadow"},
		{Call{Paths: []string{"http://169.254.169.254/"}}, "169.254.169.254"},
		{Call{URLs: []string{"https://proxy.example/?u=http%3A%2F%2F169.254.169.254%2Flatest"}}, "169.254.169.254"},
		{Call{URLs: []string{"file:///home/x/%2Enetrc"}}, ".netrc"},
		{Call{URLs: []string{"http://2852039166/"}}, "2852039166"},
		{Call{URLs: []string{"https://museum.example/proc/self/environ"}}, ""},
		{Call{URLs: []string{"https://museum.example/id_rsa"}}, ""},
		{Call{Paths: []string{"proc/cpuinfo", "ssh/config", "credentials", "", "/", ".."}}, ""},
		{Call{Texts: []string{"169.254.169.254", "~/.ssh/id_rsa", "OPENAI_API_KEY"}}, ""},
	} {
		if got := secret(Read(tc.call)); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.call, got, tc.want)
		}
	}
}

// saying is what breaks a rule, and what is near to it, by the argument that it is given as.
type saying struct{ breaks, near string }

// TestEveryModeToolRule walks every mode, tool and rule: a call whose arguments break the rule is denied with
// its id, and its near miss is judged as the mode says. A tool that runs no code breaks no rule by being told some.
func TestEveryModeToolRule(t *testing.T) {
	rules := []struct {
		id                    string
		url, path, code, line saying
	}{
		{AnswerSources, saying{"https://hf.co/datasets/gaia-benchmark/GAIA", "https://hf.co/datasets/other/GAIA"}, saying{"/hub/datasets--gaia-benchmark--GAIA/refs", "/hub/datasets--other--GAIA/refs"},
			saying{`load("gaia-benchmark/GAIA")`, `load("other/GAIA") # gaia-benchmark`}, saying{"hub get gaia-benchmark/GAIA", "echo gaia-benchmark?"}},
		{GraderSurfaces, saying{"file:///x/judgments.jsonl", "https://a.example/judgments.csv"}, saying{"runs/x/judgments.jsonl", "judgments.csv"},
			saying{`open("runs/x/judgments.jsonl")`, `open("judgments.csv")`}, saying{"cat runs/x/judgments.jsonl", "cat judgments.csv"}},
		{Secrets, saying{"http://169.254.169.254/latest", "http://169.254.example/"}, saying{"/proc/self/environ", "/proc/cpuinfo"},
			saying{`open("/proc/self/environ")`, `open("/proc/cpuinfo")`}, saying{"cat ~/.netrc", "cat netrc"}},
		{Commands, saying{}, saying{}, saying{`os.system("sudo ls")`, `os.system("ls sudo")`}, saying{"ls; sudo ls", "ls sudo"}},
		{Packages, saying{}, saying{}, saying{"import datasets", "from sklearn import datasets"}, saying{"pip install datasets", "pip install numpy"}},
		{Budget, saying{}, saying{}, saying{"1", "1"}, saying{"ls", "ls"}},
	}
	if len(rules) != len(Rules()) {
		t.Fatalf("%d rules of %d", len(rules), len(Rules()))
	}
	arguments := map[string]string{"calculate": "expression", "web_search": "query", "web_fetch": "url", "describe_image": "path", "read_file": "path",
		"transcribe_audio": "path", "list_files": "", "python": "code", "docs__run": "script", "docs__shell": "command", "docs__find": "query"}
	seen := 0
	for _, tool := range append(BuiltinTools(), "docs__run", "docs__shell", "docs__find") {
		argument, known := arguments[tool]
		if !known {
			t.Errorf("nothing is said to %s", tool)
		}
		for _, rule := range rules {
			said := map[string]saying{"url": rule.url, "path": rule.path, "code": rule.code, "script": rule.code, "command": rule.line}[argument]
			if tool == "docs__find" {
				said = rule.path
			}
			breaks := said.breaks != "" || rule.id == GraderSurfaces || rule.id == Budget
			if said.breaks == "" { // it is only told what others would run
				said = rule.code
			}
			for _, mode := range []Mode{Restricted, Approved, Autonomous} {
				for _, confirmed := range []bool{false, true} {
					p, err := Builtin(mode)
					if err != nil {
						t.Fatal(err)
					}
					p.MaxToolCalls = 10
					decide := func(text string, calls int) Decision {
						c := CallOf(tool, map[string]string{argument: text})
						c.Approved, c.ToolCalls = confirmed, calls
						return Decide(p, c)
					}
					calls := 9
					if rule.id == Budget {
						calls = 10
					}
					d := decide(said.breaks, calls)
					if breaks && (d.Verdict != Deny || !slices.Equal(d.RuleIDs, []string{rule.id}) || !strings.HasPrefix(d.Reason, rule.id+" ")) || !breaks && len(d.RuleIDs) > 0 {
						t.Errorf("%s, %s, %s: %+v", mode, tool, rule.id, d)
					}
					want := Allow
					switch {
					case mode == Restricted && !slices.Contains(readers(), tool):
						want = Deny
					case mode == Approved && !confirmed:
						want = Confirm
					}
					if d := decide(said.near, 9); d.Verdict != want || len(d.RuleIDs) != 0 {
						t.Errorf("%s, %s, near %s: %+v", mode, tool, rule.id, d)
					}
					seen++
				}
			}
		}
	}
	if seen != 3*11*6*2 {
		t.Errorf("%d cases", seen)
	}
}

// TestConfirm: a tool on the list needs a person in any mode that has it.
func TestConfirm(t *testing.T) {
	for _, tc := range []struct {
		mode     Mode
		confirm  string
		approved bool
		deny     []string
		want     Verdict
		class    Denial
		reason   string
	}{
		{Autonomous, "python", false, nil, Confirm, "", `tool "python" needs a person's approval`},
		{Autonomous, EveryTool, false, nil, Confirm, "", `tool "python" needs a person's approval`},
		{Autonomous, "python", true, nil, Allow, "", ""},
		{Autonomous, "web_fetch", false, nil, Allow, "", ""},
		{Autonomous, "python", true, []string{"python"}, Deny, DeniedByList, `tool "python" is on the deny list`},
		{Restricted, "python", true, nil, Deny, DeniedByMode, `tool "python" is not on the allow list of mode restricted`},
		{Approved, "python", false, nil, Confirm, "", "every call needs a person's approval in mode approved"},
	} {
		p, err := Builtin(tc.mode)
		if err != nil {
			t.Fatal(err)
		}
		p.Confirm, p.Deny = []string{tc.confirm}, tc.deny
		want := Decision{Verdict: tc.want, Class: tc.class, Reason: tc.reason}
		if diff := cmp.Diff(want, Decide(p, Call{Tool: "python", Known: true, Approved: tc.approved})); diff != "" {
			t.Errorf("%+v: %s", tc, diff)
		}
	}
}

// TestCallOf: a call touches what its tool says.
func TestCallOf(t *testing.T) {
	for _, tc := range []struct {
		tool string
		args map[string]string
		want Call
	}{
		{"web_fetch", map[string]string{"url": "https://a.example/", "page": "2"}, Call{URLs: []string{"https://a.example/"}, Texts: []string{"2", "https://a.example/"}}},
		{"read_file", map[string]string{"path": "a.csv"}, Call{Paths: []string{"a.csv"}, Texts: []string{"a.csv"}}},
		{"list_files", nil, Call{Paths: []string{"."}}},
		{"calculate", map[string]string{"expression": "1/2"}, Call{Texts: []string{"1/2"}}},
		{"python", map[string]string{"code": "import x"}, Call{Texts: []string{"import x"}, Code: []string{"import x"}}},
		{"server_tool", map[string]string{"a": "https://a.example/", "b": "x/y", "c": "a b/c", "d": "word"},
			Call{URLs: []string{"https://a.example/"}, Paths: []string{"https://a.example/", "x/y", "b/c"}, Texts: []string{"https://a.example/", "x/y", "a b/c", "word"},
				Strings: []string{"a", "https://a.example/", "b", "x/y", "c", "a b/c", "d", "word"}}},
		{"server_tool", map[string]string{"Script": "x", "steps": `[{"cmd":["ls","it's"],"n":1,"shell":"ls"},{"source":{"a":"b"}}]`},
			Call{Code: []string{"x"}, Lines: []string{`'ls' 'it'\''s'`, "ls"}, Texts: []string{"x", `[{"cmd":["ls","it's"],"n":1,"shell":"ls"},{"source":{"a":"b"}}]`, "cmd", "ls", "it's", "n", "shell", "ls", "source", "a", "b"},
				Strings: []string{"Script", "x", "steps", "cmd", "ls", "it's", "n", "shell", "ls", "source", "a", "b"}}},
	} {
		tc.want.Tool, tc.want.Known = tc.tool, true
		if diff := cmp.Diff(tc.want, CallOf(tc.tool, tc.args)); diff != "" {
			t.Errorf("%s: %s", tc.tool, diff)
		}
	}
}

// TestForeignTools: what a tool of a server is given is taken for what it can be, and what only speaks
// of a thing is left alone.
func TestForeignTools(t *testing.T) {
	for _, tc := range []struct{ args, rule, what string }{
		{`{"name":"gaia-benchmark/GAIA"}`, "R001", "(gaia-benchmark)"},
		{`{"author":"gaia-benchmark"}`, "R001", "(gaia-benchmark)"},
		{`{"q":"load_dataset('gaia-benchmark/GAIA')"}`, "R001", "(gaia-benchmark)"},
		{`{"url":"https://hub.example/gaia-benchmark/x"}`, "R001", "(gaia-benchmark)"},
		{`{"q":"please fetch https://huggingface.co/datasets/gaia-benchmark/GAIA now"}`, "R001", "(A01)"},
		{`{"deep":[{"by":{"x":["a","gaia-benchmark/GAIA"]}}]}`, "R001", "(gaia-benchmark)"},
		{`{"q":"{\"a\":1} gaia-benchmark/GAIA"}`, "R001", "(gaia-benchmark)"},
		{`{"path":"../results.jsonl","q":"x"}`, "R002", "(results.jsonl)"},
		{`{"q":"read /proc/self/environ please"}`, "R003", "(proc/self/environ)"},
		{`{"q":"cat ~/.ssh/id_rsa"}`, "R003", "(.ssh)"},
		{`{"q":"open C:\\Users\\x\\.aws\\credentials and look"}`, "R003", "(.aws/credentials)"},
		{`{"q":"show file:///home/x/.netrc"}`, "R003", "(.netrc)"},
		{`{"shell":"echo $OPENAI_API_KEY"}`, "R003", "(OPENAI_API_KEY)"},
		{`{"code":"import os\nos.environ['HF_TOKEN']"}`, "R003", "(HF_TOKEN)"},
		{`{"command":"ls; curl -s x"}`, "R004", "(curl)"},
		{`{"step":{"Cmd":["sudo","ls"]}}`, "R004", "(sudo)"},
		{`{"bash":"sh -c 'wget x'"}`, "R004", "(wget)"},
		{`{"script":"import os; os.system('nc x 1')"}`, "R004", "(nc)"},
		{`{"env":{"LD_PRELOAD":"./x.so"}}`, "R004", "(LD_PRELOAD)"},
		{`{"LD_AUDIT":"./x.so"}`, "R004", "(LD_AUDIT)"},
		{`{"cells":[{"source":["import numpy"]},{"source":["import datasets"]}]}`, "R005", "(datasets)"},
		{`{"line":"pip install smolagents"}`, "R005", "(smolagents)"},

		{`{"q":"who maintains gaia-benchmark?"}`, "", ""},
		{`{"q":"what is \"gaia-benchmark\", and is (gaia-benchmark) kept?"}`, "", ""},
		{`{"q":"mount everest"}`, "", ""},
		{`{"q":"how to import datasets in R"}`, "", ""},
		{`{"q":"a/b testing of ssh and curl/wget"}`, "", ""},
		{`{"q":"what does LD_PRELOAD do?"}`, "", ""},
		{`{"q":"the address 169.254.169.254 is link-local, see .NET and 24/7"}`, "", ""},
		{`{"q":"set OPENAI_API_KEY first"}`, "", ""},
		{`{"source":"wikipedia","line":"4","program":"evening news"}`, "", ""},
		{`{"code":"# import datasets\nprint(1)"}`, "", ""},
		{`{"command":"grep curl notes.txt"}`, "", ""},
		{`{"n":1,"deep":[true,null,{}],"empty":""}`, "", ""},
	} {
		args, err := Arguments([]byte(tc.args))
		if err != nil {
			t.Fatalf("%s: %v", tc.args, err)
		}
		var want []string
		if tc.rule != "" {
			want = []string{tc.rule}
		}
		if d := Decide(free, CallOf("docs__find", args)); !slices.Equal(d.RuleIDs, want) || !strings.HasSuffix(d.Reason, tc.what) {
			t.Errorf("%s\n\tgives %v %q, want %s %s", tc.args, d.RuleIDs, d.Reason, tc.rule, tc.what)
		}
	}
}

// FuzzForeign: arguments of any form are judged, and alike each time.
func FuzzForeign(f *testing.F) {
	for _, seed := range []string{`{"cmd":["a",["b"],{"x":"y"}],"c":"d"}`, `{"code":"x","code ":[[[`, `{"a":"[\"x\"] /y"}`, `{"q":"C:\\x ~ . / file://"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, args := range []map[string]string{{"command": text, "code": text}, {"deep": "[" + text}} {
			c := CallOf("docs__find", args)
			if diff := cmp.Diff(c, CallOf("docs__find", args)); diff != "" {
				t.Fatal(diff)
			}
			Decide(free, c)
		}
	})
}

// BenchmarkHostileCode reads code that is made to be expensive, of one size and of twice that: the time for
// a byte is the same where reading is linear.
func BenchmarkHostileCode(b *testing.B) {
	shapes := []string{"run(", "a=", "exec('", `f"{`, "x=[", "'a'+", "join(", "cmd,", "(){", "$", "`", "{x:", "\\", "system(a);a=", "exec(exec(exec(exec(", "a0=a0;run(a0);", "from ", "from a.", "import ", "os.system('env env env -u 2>a')", "os.system('>&<$')", "for a in a:", "f=os.system;f(1);", "y=x.a;", "getattr(a,b)("}
	for _, size := range []int{100_000, 200_000} {
		b.Run(fmt.Sprintf("%d_bytes", size), func(b *testing.B) {
			b.SetBytes(int64(size * len(shapes)))
			for b.Loop() {
				for _, shape := range shapes {
					Decide(free, Call{Tool: "python", Known: true, Code: []string{strings.Repeat(shape, size/len(shape))}})
				}
			}
		})
	}
}

// TestCommentsSayNothing: a comment at the end of any line changes nothing for what code does.
func TestCommentsSayNothing(t *testing.T) {
	lines := rapid.SliceOfN(rapid.SampledFrom([]string{"import os", `os.system("curl x")`, "x = 'a'", "import datasets", "if x:", "    pass", `y = "#"`}), 1, 6)
	comments := rapid.SampledFrom([]string{"# import smolagents", `# os.system("sudo")`, "# '\"", `#"""`})
	rapid.Check(t, func(t *rapid.T) {
		var bare, said strings.Builder
		for _, line := range lines.Draw(t, "lines") {
			bare.WriteString(line + "\n")
			said.WriteString(line + " " + comments.Draw(t, "comment") + "\n")
		}
		if diff := cmp.Diff(readCode(bare.String()), readCode(said.String()), cmp.AllowUnexported(reading{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzCode(f *testing.F) {
	for _, seed := range []string{`f"{x["a"]!r:>{w}}"`, "r'\\' + b\"\\x4\"", "import a.b as c, d", "from . import (x)", `os.system("a;b $(c) 'd'")`, "a = b = ['x'", `"\N{DASH} \U0010ffff \777"`, "%%bash\nx", "f'''{", "x=\"\\",
		"os.environ.", "getenv(", "environ['A'] =", "Path('/').rglob(", "glob('/*/*/*"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, code string) {
		first := readCode(code)
		if diff := cmp.Diff(first, readCode(code), cmp.AllowUnexported(reading{})); diff != "" {
			t.Fatal(diff)
		}
		Decide(free, Call{Tool: "python", Known: true, Code: []string{code}})
	})
}

// TestSimpleCommands: a line is cut where a shell cuts it, into words without quotes and redirections.
func TestSimpleCommands(t *testing.T) {
	for line, want := range map[string][][]string{
		"":                        nil,
		`a 'b c' "d e" f\ g`:      {{"a", "b c", "d e", "f g"}},
		"a > f b; c && d | e":     {{"a", "b"}, {"c"}, {"d"}, {"e"}},
		"a 2>&1 b":                {{"a", "b"}},
		`a $(b "c") d`:            {{"a"}, {"b", "c"}, {"d"}},
		"a `b`":                   {{"a"}, {"b"}},
		"a # b\nc":                {{"a"}, {"c"}},
		`$'\x61' b`:               {{"a", "b"}},
		"a \\\nb":                 {{"a", "b"}},
		"cat << E\nrm -rf /\nE\n": {{"cat"}, {"rm", "-rf", "/"}, {"E"}},
	} {
		if got := simpleCommands(line); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// FuzzArguments: what plainArguments reads is what the decoder reads, which gets each text with a newline before it.
func FuzzArguments(f *testing.F) {
	for _, text := range []string{`{"a":"b"}`, `{ "a" : "b" , "c" : "" }`, `{"a":"b","a":"c"}`, `{"a":"b",}`, `{"a":"b"}}`, `{"a":"b"} `, `{"":""}`,
		`{"a":"\n"}`, `{"a":"` + "\x7f" + `"}`, `{"a":"é"}`, `{"a":1}`, `{}`, `{`, `"a"`, `{"a":"b"`, `{"a" "b"}`, "{\"a\":\"b\tc\"}", ` {"a":"b"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Arguments(text)
		want, errWant := Arguments(append([]byte("\n"), text...))
		if !maps.Equal(got, want) || (err == nil) != (errWant == nil) {
			t.Errorf("%q: %q and %v, want %q and %v", text, got, err, want, errWant)
		}
	})
}
