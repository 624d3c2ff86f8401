const KINDS = ["instance", "dead_letter", "doubt", "approval", "action", "skipped"];

/** Follows the events while the page is open. `mint` requests a token for one minute from your own server, which has the API token. */
export async function follow(mint: () => Promise<string>, tell: (event: MessageEvent) => void, heard = ""): Promise<void> {
  const query = new URLSearchParams({ token: await mint(), ...(heard && { last_event_id: heard }) });
  const source = new EventSource(`/v1/stream?${query}`);
  const hear = (event: Event) => {
    heard = (event as MessageEvent).lastEventId;
    tell(event as MessageEvent);
  };
  for (const kind of KINDS) source.addEventListener(kind, hear);
  // It reconnects automatically. With an expired token it is refused and closed: a new source resumes at the last event.
  source.onerror = () => source.readyState === EventSource.CLOSED && setTimeout(() => follow(mint, tell, heard), 1000);
}
