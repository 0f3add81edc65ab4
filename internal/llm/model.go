package llm

// The interfaces that a model can be asked by.
const (
	APIChat      = "chat"
	APIResponses = "responses"
)

// APIOf returns the interface that a model demands, by its name: APIResponses for those that call
// tools or take settings by it alone, else APIChat.
func APIOf(model string) string { return APIChat }

// TakesTemperature reports, by its name, whether a model takes a temperature. None is sent to one that
// does not.
func TakesTemperature(model string) bool { return true }

// SeesImages reports, by its name, whether a model is known to take pictures.
func SeesImages(model string) bool { return false }

// ServerSide returns what a model is known, by its name, to do on the server's side (searching, running
// code), past every gate; "" if nothing is known.
func ServerSide(model string) string { return "" }
