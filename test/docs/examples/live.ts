const KINDS = ["instance", "dead_letter", "doubt", "approval", "action", "skipped"];

/** Follows what happens for as long as the page is open. `mint` asks your own server, which holds the token, for one of these minutes. */
export async function follow(mint: () => Promise<string>, tell: (event: MessageEvent) => void, heard = ""): Promise<void> {
  const query = new URLSearchParams({ token: await mint(), ...(heard && { last_event_id: heard }) });
  const source = new EventSource(`/v1/stream?${query}`);
  const hear = (event: Event) => {
    heard = (event as MessageEvent).lastEventId;
    tell(event as MessageEvent);
  };
  for (const kind of KINDS) source.addEventListener(kind, hear);
  // It asks again by itself; refused, because its token is too old by then, it is closed, and a new one goes on where it was.
  source.onerror = () => source.readyState === EventSource.CLOSED && setTimeout(() => follow(mint, tell, heard), 1000);
}
