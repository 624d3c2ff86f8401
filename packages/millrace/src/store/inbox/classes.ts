import { thoseThat } from "../../contract/declared.ts";

/** The properties of an effect class. */
interface ClassFacts {
  /** True if an attempt claims the effect's key before the effect runs, because the upstream does not tolerate parallel attempts. */
  readonly claims: boolean;
  /** The reaction to an unknown outcome: repeat the effect, query the upstream, or wait for an operator. */
  readonly unknown: "repeat" | "ask upstream" | "ask person";
}

/** The effect classes of steps with an inbox row. A `read` step has no inbox row. See the guarantees table in README.md. */
const CLASSES = {
  commit: { claims: false, unknown: "repeat" },
  keyed: { claims: false, unknown: "repeat" },
  natural: { claims: false, unknown: "repeat" },
  lookup: { claims: true, unknown: "ask upstream" },
  once: { claims: true, unknown: "ask person" },
} as const satisfies Record<string, ClassFacts>;

export type RecordedClass = keyof typeof CLASSES;

export const RECORDED_CLASSES = Object.keys(CLASSES) as [RecordedClass, ...RecordedClass[]];

const classesThat = (is: (facts: ClassFacts) => boolean) => thoseThat<ClassFacts, RecordedClass>(CLASSES, is);

/** Classes whose attempts claim the effect's key before the effect runs. */
export const CLAIMED = classesThat(({ claims }) => claims);

/** Classes whose attempts query the upstream about an earlier attempt. */
export const ASKED = classesThat(({ unknown }) => unknown === "ask upstream");

/** Classes whose steps wait for an operator after an unknown outcome. */
export const DOUBTED = classesThat(({ unknown }) => unknown === "ask person");
