import { thoseThat } from "../../contract/one-of.ts";

/** What is true of an effect class. */
interface ClassFacts {
  /** True where an attempt takes the effect's key before it acts: its upstream would not bear another attempt beside it. */
  readonly claims: boolean;
  /** What is done when nobody knows whether the effect happened: it is repeated, the upstream is asked, or a person is. */
  readonly unknown: "repeat" | "ask upstream" | "ask person";
}

/** The effect classes that write an inbox row, each with what follows from it. `read` writes none. See the guarantees table in README.md. */
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

/** Their key is taken before they act. */
export const CLAIMED = classesThat(({ claims }) => claims);

/** Their upstream is asked what an earlier attempt did. */
export const ASKED = classesThat(({ unknown }) => unknown === "ask upstream");

/** They are parked in doubt until a person says what they did. */
export const DOUBTED = classesThat(({ unknown }) => unknown === "ask person");
