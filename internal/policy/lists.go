package policy

// The lists of R003, R004 and R005. Each is what the rule means, so each is in the constitution.

// secretPlaces are files and folders with key material or credentials, as they end in anybody's home
// or in the system. A part may stand for several, separated by |; * is any.
func secretPlaces() []string {
	return []string{
		".aws/credentials", ".azure/accesstokens.json", ".config/gcloud", ".docker/config.json", ".git-credentials", ".gnupg",
		".huggingface/token", ".kube/config", ".netrc|_netrc", ".pypirc", ".ssh", "etc/shadow|gshadow", "huggingface/token",
		"id_dsa|id_ecdsa|id_ed25519|id_rsa", "proc/*/environ|mem", "proc/*/task/*/environ|mem",
	}
}

// keyVariables are variables of the environment that hold keys, or say where one is.
func keyVariables() []string {
	return []string{
		"ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_OPENAI_API_KEY", "BRAVE_API_KEY", "COHERE_API_KEY",
		"DEEPSEEK_API_KEY", "FIREWORKS_API_KEY", "GAIA_SIGNING_KEY", "GAIA_SIGNING_KEY_FILE", "GEMINI_API_KEY", "GH_TOKEN", "GITHUB_TOKEN",
		"GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "GROQ_API_KEY", "HF_TOKEN", "HUGGINGFACEHUB_API_TOKEN", "HUGGING_FACE_HUB_TOKEN",
		"MISTRAL_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "PERPLEXITY_API_KEY", "REPLICATE_API_TOKEN", "SERPAPI_API_KEY",
		"SERPER_API_KEY", "TAVILY_API_KEY", "TOGETHER_API_KEY", "XAI_API_KEY",
	}
}

// metadataAddresses are where clouds tell their machines' credentials, cut as URLs are.
func metadataAddresses() []string {
	return []string{"0xa9fea9fe", "100.100.100.200", "169.254.169.254", "169.254.170.2", "2852039166", "fd00/ec2/254", "metadata.google.internal"}
}

// hostCommands are programs that act on the host, on the network or on other processes.
func hostCommands() []string {
	return []string{
		forkBomb, removeAll,
		"aria2c", "bwrap", "chroot", "crontab", "ctr", "curl", "docker", "doas", "firejail", "ftp", "gdb", "halt", "insmod", "iptables",
		"kubectl", "losetup", "ltrace", "lxc", "mkfs", "modprobe", "mount", "nc", "ncat", "nerdctl", "netcat", "nft", "nmap", "nsenter",
		"pkexec", "podman", "poweroff", "reboot", "rsync", "runc", "runuser", "scp", "sftp", "shutdown", "socat", "ssh", "strace", "su",
		"sudo", "systemctl", "systemd-run", "telnet", "tftp", "umount", "unshare", "wget",
	}
}

// LoaderHooks are variables and modules that make programs load code by themselves.
func LoaderHooks() []string {
	return []string{"BASH_ENV", "DYLD_INSERT_LIBRARIES", "LD_AUDIT", "LD_PRELOAD", "PYTHONSTARTUP", "sitecustomize", "usercustomize"}
}

// harnessPackages are packages that load the benchmark from where it lies, or are other harnesses that
// bring its questions and answers.
func harnessPackages() []string {
	return []string{
		"datasets", "gaia-benchmark", "hal-harness", "hf-transfer", "hf-xet", "huggingface-hub", "inspect-ai", "inspect-evals", "kagglehub",
		"lighteval", "lm-eval", "mlcroissant", "modelscope", "opendatasets", "smolagents",
	}
}
