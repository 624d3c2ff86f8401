import { hubspotSignature, SIGNATURE_HEADER, TIMESTAMP_HEADER } from "../../providers/hubspot-signature.ts";

/** HubSpot's own limits: the maximum number of events in a message, and of attempts to deliver an event. */
const MAX_EVENTS = 100;
const MAX_ATTEMPTS = 10;
const MESSAGES_AT_ONCE = 10;
const TIMEOUT_MS = 5_000;
/** HubSpot spreads its delivery attempts over a day. In the embedded CRM the delays double from one second to one minute. */
const BACKOFF_MS = { first: 1_000, most: 60_000 };

export interface Target {
  url: string;
  secret(): string;
  fetch(request: Request): Promise<Response>;
}

export interface Delivery {
  at: number;
  url: string;
  /** The ids of the message's events. */
  events: number[];
  /** The status of the receiver's response; null without a response. */
  status: number | null;
}

interface EventRow extends Record<string, SqlStorageValue> {
  id: number;
  body: string;
  attempt: number;
  due_at: number;
}

/**
 * Sends messages about changes of contacts. The events of the messages are in a table, to which each change adds its events in one
 * transaction.
 */
export class Deliveries {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** The time when the next event is due; undefined if no event waits. */
  nextAt(): number | undefined {
    return this.#sql.exec<{ at: number | null }>("SELECT min(due_at) AS at FROM events").one().at ?? undefined;
  }

  /**
   * Sends some due messages to the receiver in order. Events without a 2xx response are sent again. After the last attempt such events are
   * deleted.
   */
  async sendDue(target: Target): Promise<void> {
    for (let sent = 0; sent < MESSAGES_AT_ONCE && (await this.#sendSome(target)); sent++);
  }

  /** Sends one message to the receiver. The method returns true if the receiver accepted the message. */
  async #sendSome(target: Target): Promise<boolean> {
    const now = Date.now();
    const due = this.#sql.exec<EventRow>("SELECT * FROM events WHERE due_at <= ? ORDER BY due_at, id LIMIT ?", now, MAX_EVENTS).toArray();
    if (due.length === 0) return false;
    const body = JSON.stringify(due.map((event) => ({ eventId: event.id, attemptNumber: event.attempt, ...JSON.parse(event.body) })));
    const status = await post(target, body, String(now)).catch(() => null);
    const ids = due.map(({ id }) => id);
    this.#sql.exec("INSERT INTO deliveries (at, url, events, status) VALUES (?, ?, ?, ?)", now, target.url, JSON.stringify(ids), status);
    const isTaken = status !== null && status >= 200 && status <= 299;
    if (isTaken) this.#forget(ids);
    else this.#again(due);
    return isTaken;
  }

  report(): { deliveries: Delivery[]; waiting: number } {
    const deliveries = this.#sql
      .exec<{ at: number; url: string; events: string; status: number | null }>(
        "SELECT at, url, events, status FROM deliveries ORDER BY id",
      )
      .toArray();
    const waiting = this.#sql.exec<{ count: number }>("SELECT count(*) AS count FROM events").one().count;
    return { deliveries: deliveries.map(({ events, ...delivery }) => ({ ...delivery, events: JSON.parse(events) })), waiting };
  }

  #forget(ids: readonly number[]): void {
    this.#sql.exec("DELETE FROM events WHERE id IN (SELECT value FROM json_each(?))", JSON.stringify(ids));
  }

  #again(events: readonly EventRow[]): void {
    this.#forget(events.filter(({ attempt }) => attempt + 1 >= MAX_ATTEMPTS).map(({ id }) => id));
    for (const { id, attempt } of events) {
      const wait = Math.min(BACKOFF_MS.first * 2 ** attempt, BACKOFF_MS.most);
      this.#sql.exec("UPDATE events SET attempt = attempt + 1, due_at = ? WHERE id = ?", Date.now() + wait, id);
    }
  }
}

async function post({ url, secret, fetch }: Target, body: string, timestamp: string): Promise<number> {
  const headers = {
    "content-type": "application/json",
    [SIGNATURE_HEADER]: hubspotSignature(secret(), "POST", url, body, timestamp),
    [TIMESTAMP_HEADER]: timestamp,
  };
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const answer = await fetch(new Request(url, { method: "POST", headers, body, redirect: "manual", signal }));
  await answer.body?.cancel();
  return answer.status;
}
