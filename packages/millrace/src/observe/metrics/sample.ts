/** The current reading of one gauge. */
export interface Sample {
  /** The gauge's name without the prefix, such as `queue_depth`. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The value of the gauge; NaN if the gauge could not be read. */
  readonly value: number;
}

/** Throws if the app's function for gauges returned a value in an invalid format. */
export function assertSamples(said: unknown): asserts said is readonly Sample[] {
  const wrong = Array.isArray(said) ? said.find((one) => !isSample(one)) : said;
  if (Array.isArray(said) && wrong === undefined) return;
  throw new TypeError(`Gauges must return a list of { name, labels, value } with texts as labels, not ${nameOf(wrong)}.`);
}

function isSample(one: Partial<Sample> | null): boolean {
  const { name, labels, value } = one ?? {};
  const texts = typeof labels === "object" && labels !== null ? Object.values(labels) : [undefined];
  return typeof name === "string" && typeof value === "number" && texts.every((text) => typeof text === "string");
}

function nameOf(wrong: unknown): string {
  const { name } = (wrong ?? {}) as Partial<Sample>;
  return typeof name === "string" ? `the gauge ${JSON.stringify(name)}` : wrong === null ? "null" : `a ${typeof wrong}`;
}
