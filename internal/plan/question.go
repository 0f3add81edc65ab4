package plan

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// QuestionDigest returns the question_sha256 of a task with this salt: HMAC-SHA256 of
// the question's SHA-256. Without the salt no one can test a guess at the question.
func QuestionDigest(salt, question string) (string, error) {
	key, err := hex.DecodeString(salt)
	if err != nil || len(key) != sha256.Size {
		return "", fmt.Errorf("the salt of the task is not 32 bytes in hexadecimal")
	}
	return SaltedQuestion(key, sha256.Sum256([]byte(question))), nil
}

// SaltQuestion fills in the question_sha256 of a planned task.
func (p *PlannedTask) SaltQuestion(secret, question string) error {
	salt, err := TaskSalt(secret, p.TaskID)
	if err == nil {
		p.QuestionSHA256, err = QuestionDigest(salt, question)
	}
	return err
}

// Unsalted returns a plan without the digests of its questions, which differ in any two
// runs.
func (m Plan) Unsalted() Plan {
	m.Tasks = slices.Clone(m.Tasks)
	for i := range m.Tasks {
		m.Tasks[i].QuestionSHA256 = ""
	}
	return m
}

func SaltedQuestion(salt []byte, question [sha256.Size]byte) string {
	return "sha256:" + hex.EncodeToString(mac(salt, question[:]))
}

func mac(key, message []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(message)
	return h.Sum(nil)
}
