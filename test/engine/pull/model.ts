const RETRY_LIMIT = 1;

interface Message {
  id: string;
  failures: number;
  /** `free` may be pulled from `dueAt` on. */
  state: "free" | "leased" | "done" | "dead";
  dueAt: number;
  lease: string | undefined;
  until: number;
}

/** The expected behaviour of a pull queue with one retry, as a naive model. */
export class PullModel {
  readonly messages: Message[] = [];
  /** Every lease that was ever given. */
  readonly leases: string[] = [];

  sent(ids: readonly string[], dueAt: number): void {
    for (const id of ids) this.messages.push({ id, failures: 0, state: "free", dueAt, lease: undefined, until: 0 });
  }

  /** How many messages can be pulled now. */
  free(now: number): Message[] {
    this.#expire(now);
    return this.messages.filter(({ state, dueAt }) => state === "free" && dueAt <= now);
  }

  /** Notes a message as leased. Returns the error found. */
  leased(id: string, lease: string, attempts: number, until: number, now: number): string | undefined {
    const message = this.free(now).find((one) => one.id === id);
    if (!message) return `${id} was leased and is not free`;
    if (this.leases.includes(lease)) return `${lease} was given twice`;
    if (attempts !== message.failures + 1) return `${id} is said to be at attempt ${attempts} after ${message.failures} failures`;
    this.leases.push(lease);
    Object.assign(message, { state: "leased", lease, until });
  }

  /** The expected answer of a settlement. */
  settled(acks: readonly string[], retries: readonly { leaseId: string; delayMs: number }[], now: number) {
    this.#expire(now);
    const open = (lease: string) => this.messages.find((one) => one.state === "leased" && one.lease === lease);
    const all = [...acks, ...retries.map(({ leaseId }) => leaseId)];
    const over = all.filter((lease) => open(lease) === undefined).length;
    let acked = 0;
    let retried = 0;
    for (const lease of acks) {
      const message = open(lease);
      if (message) Object.assign(message, { state: "done" });
      if (message) acked++;
    }
    for (const { leaseId, delayMs } of retries) {
      const message = open(leaseId);
      if (message) this.#failed(message, now + delayMs);
      if (message) retried++;
    }
    return { acked, retried, over };
  }

  ids(...states: Message["state"][]): string[] {
    return this.messages.filter(({ state }) => states.includes(state)).map(({ id }) => id);
  }

  #expire(now: number): void {
    for (const message of this.messages) if (message.state === "leased" && message.until <= now) this.#failed(message, now);
  }

  #failed(message: Message, dueAt: number): void {
    message.failures++;
    Object.assign(message, { state: message.failures > RETRY_LIMIT ? "dead" : "free", dueAt, lease: undefined });
  }
}
