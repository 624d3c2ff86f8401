/** One event of a stream, or an id that only moves the reader's position. */
export interface Heard {
  id: string;
  event: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: tests assert the fields that they read
  data: any;
}

/** Reads a response of server-sent events as it arrives. */
export class EventReader {
  readonly heard: Heard[] = [];
  /** The received text unchanged, including comments. */
  raw = "";
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #unread = "";

  constructor({ body }: Response) {
    if (!body) throw new Error("The response has no body.");
    this.#reader = body.getReader();
  }

  /** The blocks of the next events; false if the stream has ended. */
  async read(): Promise<boolean> {
    const { value, done } = await this.#reader.read();
    if (done) return false;
    const text = new TextDecoder().decode(value);
    this.raw += text;
    this.#unread += text;
    const blocks = this.#unread.split("\n\n");
    this.#unread = blocks.pop() ?? "";
    for (const block of blocks) {
      const fields = Object.fromEntries(
        block.split("\n").flatMap((line) => [/^(id|event|data): (.*)$/.exec(line)?.slice(1, 3) ?? []].filter((one) => one.length)),
      );
      if (fields.id) this.heard.push({ id: fields.id, event: fields.event, data: fields.data && JSON.parse(fields.data) });
    }
    return true;
  }

  /** The received events, without those that only move the position. */
  get told(): Heard[] {
    return this.heard.filter(({ event }) => event !== undefined);
  }

  /** Reads until a matching event arrives, and returns it. */
  async until(fits: (one: Heard) => boolean): Promise<Heard> {
    for (;;) {
      const found = this.told.find(fits);
      if (found) return found;
      if (!(await this.read())) throw new Error(`The stream has ended without a matching event: ${this.raw}`);
    }
  }

  async untilRaw(text: string): Promise<void> {
    while (!this.raw.includes(text)) if (!(await this.read())) throw new Error(`The stream has ended without "${text}": ${this.raw}`);
  }

  /** Reads the stream until it ends. */
  async all(): Promise<Heard[]> {
    while (await this.read());
    return this.told;
  }

  close(): Promise<void> {
    return this.#reader.cancel();
  }
}
