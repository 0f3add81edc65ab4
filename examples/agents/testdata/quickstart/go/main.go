package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
)

func main() {
	question, _ := io.ReadAll(os.Stdin)
	text := string(question) + "\n\nEnd with a line FINAL ANSWER: and the answer, as short as possible."
	body, _ := json.Marshal(map[string]any{"model": os.Getenv("GAIA_MODEL"), "messages": []map[string]string{{"role": "user", "content": text}}})
	request, _ := http.NewRequest("POST", os.Getenv("OPENAI_BASE_URL")+"/chat/completions", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	var said struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.NewDecoder(reply.Body).Decode(&said); err != nil || len(said.Choices) == 0 {
		log.Fatal(reply.Status, err)
	}
	_, answer, _ := strings.Cut(said.Choices[0].Message.Content, "FINAL ANSWER:")
	if err := os.WriteFile("ANSWER", []byte(answer), 0o644); err != nil {
		log.Fatal(err)
	}
}
