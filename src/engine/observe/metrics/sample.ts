/** One reading of one gauge: what is so now. */
export interface Sample {
  /** Its name without the prefix, such as `queue_depth`. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** NaN for what could not be read now. */
  readonly value: number;
}
