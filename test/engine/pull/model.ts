const RETRY_LIMIT = 1;

interface Message {
  id: string;
  failures: number;
  /** A `free` message may be pulled from `dueAt` on. */
  state: "free" | "leased" | "done" | "dead";
  dueAt: number;
  lease: string | undefined;
  until: number;
}

/** A simple model of a pull queue with one retry, which predicts its behaviour. */
export class PullModel {
  readonly messages: Message[] = [];
  /** Every lease id so far. */
  readonly leases: string[] = [];

  sent(ids: readonly string[], dueAt: number): void {
    for (const id of ids) this.messages.push({ id, failures: 0, state: "free", dueAt, lease: undefined, until: 0 });
  }

  /** The messages that can be pulled now. */
  free(now: number): Message[] {
    this.#expire(now);
    return this.messages.filter(({ state, dueAt }) => state === "free" && dueAt <= now);
  }

  /** Records a message as leased. Returns a text if the model forbids that lease. */
  leased(id: string, lease: string, attempts: number, until: number, now: number): string | undefined {
    const message = this.free(now).find((one) => one.id === id);
    if (!message) return `the message ${id} was leased, but the model has it as not available`;
    if (this.leases.includes(lease)) return `the lease ${lease} was granted twice`;
    if (attempts !== message.failures + 1) return `the message ${id} was leased as attempt ${attempts} after ${message.failures} failures`;
    this.leases.push(lease);
    Object.assign(message, { state: "leased", lease, until });
  }

  /** The expected answer to acknowledgements and releases. */
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
