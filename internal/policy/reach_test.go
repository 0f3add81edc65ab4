package policy

import "testing"

// TestReaches: what a call looks at of the process that runs it, and what only looks like it.
func TestReaches(t *testing.T) {
	const frames, processes, outside, environment = "frames", "processes", "outside", "environment"
	tests := []struct{ code, kind, want string }{
		{"import sys\nprint(sys._getframe(1).f_code)", frames, "_getframe"},
		{"import sys\ng = getattr(sys, '_getframe')", frames, "_getframe"},
		{"import inspect\nprint(inspect.stack()[1])", frames, "inspect.stack"},
		{"from inspect import stack as s\nprint(s())", frames, "inspect.stack"},
		{"try:\n  1/0\nexcept Exception as e:\n  print(e.__traceback__.tb_frame.f_back)", frames, "tb_frame"},
		{"import gc\nprint(len(gc.get_objects()))", frames, "gc.get_objects"},
		{"exec('import sys; sys._getframe()')", frames, "_getframe"},
		{"# sys._getframe() would show it\nprint(1)", frames, ""},
		{"print('_getframe is a function of sys')", frames, ""},
		{"import numpy as np\nprint(np.stack([a, b]))", frames, ""},
		{"import inspect\nprint(inspect.getsource(f))", frames, ""},
		{"client.get_objects()", frames, ""},
		{"import traceback\nprint(traceback.extract_stack())", frames, "traceback.extract_stack"},
		{"import traceback\ntraceback.print_exc()", frames, ""},
		{"import sys\nprint(sys._current_exceptions())", frames, "_current_exceptions"},

		{"print(open('/proc/1/cmdline').read())", processes, "/proc/1/cmdline"},
		{"import glob\nfor p in glob.glob('/proc/[0-9]*/maps'): print(p)", processes, "/proc/[0-9]*/maps"},
		{"print(open(f'/proc/{pid}/fd/3').read())", processes, "/proc/{}/fd"},
		{"import os\nprint(os.listdir('/proc'))", processes, "/proc"},
		{"import os\nos.system('cat /proc/self/maps')", processes, "/proc/self/maps"},
		{"print(open('/proc/../proc/1/exe').read())", processes, "/proc/1/exe"},
		{"print(open('/proc/cpuinfo').read(), open('/proc/self/status').read())", processes, ""},
		{"import os\nos.system('find / -path /proc -prune -o -name a.csv -print')", processes, ""},
		{"print(open('proc/1/cmdline').read())", processes, ""},
		{"print(open('/proc/%d/cmdline' % 1).read())", processes, "/proc/%d/cmdline"},
		{"print(open('/'.join(['', 'proc', '1', 'cmdline'])).read())", processes, "/proc/1/cmdline"},
		{"import psutil\nprint([p.cmdline() for p in psutil.process_iter()])", processes, "psutil.process_iter"},
		{"from psutil import Process\nprint(Process(1).environ())", processes, "psutil.Process"},
		{"import psutil\nprint(psutil.cpu_count(), psutil.Process().memory_info(), psutil.Process(os.getpid()))", processes, ""},
		{"print('https://a.example/proc/1/maps')", processes, ""},

		{"import urllib.request as u\nprint(u.urlopen('file:///etc/passwd').read())", outside, "file:///etc/passwd"},
		{"u.urlopen('FILE://localhost/workspace/../etc/hosts')", outside, "FILE://localhost/workspace/../etc/hosts"},
		{"u.urlopen('file:///workspace/clocks.csv')", outside, ""},
		{"u.urlopen('file://' + path)", outside, ""},
		{"u.urlopen(f'file://{path}')", outside, ""},
		{"print('file: /etc/passwd')", outside, ""},

		{"import os\nprint(os.environ)", environment, "environ"},
		{"import os\nprint('all:', os.environ)", environment, "environ"},
		{"import os\nprint(dict(os.environ))", environment, "environ"},
		{"from os import environ\nprint(sorted(environ))", environment, "environ"},
		{"import os\nfor k, v in os.environ.items(): print(k, v)", environment, "environ"},
		{"import os\nprint([k for k in os.environ])", environment, "environ"},
		{"import os\nprint(f'{os.environ}')", environment, "environ"},
		{"import os\nprint({**os.environ})", environment, "environ"},
		{"import os\nos.environ", environment, "environ"},
		{"import os\nos.system('printenv')", environment, "printenv"},
		{"import subprocess\nsubprocess.run(['env'])", environment, "env"},
		{"!env | sort", environment, "env"},
		{"import os\nprint(os.environ.get('HOME'), os.environ['LANG'], 'TZ' in os.environ)", environment, ""},
		{"import os\nif name in os.environ: print(1)", environment, ""},
		{"import os\nenv = dict(os.environ, TZ='UTC')", environment, ""},
		{"import os, subprocess\nsubprocess.run(['date'], env=os.environ)", environment, ""},
		{"import os\nenv = {**os.environ, 'TZ': 'UTC'}\nenv = os.environ.copy()", environment, ""},
		{"import os\nos.system('printenv HOME; env TZ=UTC date')", environment, ""},
		{"print('printenv')", environment, ""},
	}
	for _, tt := range tests {
		r := Reaches(CallOf("python", map[string]string{"code": tt.code}))
		got := map[string]string{frames: r.Frames, processes: r.Processes, outside: r.Outside, environment: r.Environment}
		for kind, found := range got {
			if want := map[bool]string{true: tt.want}[kind == tt.kind]; found != want {
				t.Errorf("%q: %s is %q, want %q", tt.code, kind, found, want)
			}
		}
	}
	for _, tt := range []struct{ url, want string }{
		{"file:///home/keeper/answers.txt", "file:///home/keeper/answers.txt"}, {"file:///%65tc/passwd", "file:///%65tc/passwd"},
		{"file:///workspace/clocks.csv", ""}, {"http://a.example/file:///etc/passwd", ""},
	} {
		if got := Reaches(CallOf("web_fetch", map[string]string{"url": tt.url})).Outside; got != tt.want {
			t.Errorf("%q: %q, want %q", tt.url, got, tt.want)
		}
	}
}
