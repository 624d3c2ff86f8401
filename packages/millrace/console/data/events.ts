export interface ServerEvent {
  id?: string;
  event?: string;
  data: Record<string, unknown>;
}

/**
 * Reads server-sent events until the stream ends. Calls `tell` for each event. If a chunk completes no event, `tell` is called with
 * undefined.
 */
export async function readEvents(body: ReadableStream<Uint8Array>, tell: (event: ServerEvent | undefined) => void): Promise<void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let left = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (left + decoder.decode(value, { stream: true })).split("\n\n");
    left = events.pop() ?? "";
    if (events.length === 0) tell(undefined);
    for (const event of events) tell(eventOf(event));
  }
}

function eventOf(text: string): ServerEvent {
  const fields = new Map(text.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)] as const));
  const [id, event] = [fields.get("id"), fields.get("event")];
  return { ...(id !== undefined && { id }), ...(event !== undefined && { event }), data: JSON.parse(fields.get("data") ?? "{}") };
}
