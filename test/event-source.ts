/** One event of a stream, or an id that only moves the reader's place. */
export interface Heard {
  id: string;
  event: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: tests assert the fields that they read
  data: any;
}

/** Reads an answer of server-sent events as it comes. */
export class EventReader {
  readonly heard: Heard[] = [];
  /** Comments and all, as they came. */
  raw = "";
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #unread = "";

  constructor({ body }: Response) {
    if (!body) throw new Error("The answer has no body.");
    this.#reader = body.getReader();
  }

  /** The next events' blocks; false where the stream has ended. */
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
      if (!(await this.read())) throw new Error(`The stream has ended without it: ${this.raw}`);
    }
  }

  async untilRaw(text: string): Promise<void> {
    while (!this.raw.includes(text)) if (!(await this.read())) throw new Error(`The stream has ended without "${text}": ${this.raw}`);
  }

  /** Reads to the end. */
  async all(): Promise<Heard[]> {
    while (await this.read());
    return this.told;
  }

  close(): Promise<void> {
    return this.#reader.cancel();
  }
}
