import type { ComponentType } from "preact";

/** A screen of the console. */
export interface Screen {
  name: string;
  /** Behind `/console/`; "" is the console itself. */
  path: string;
  title: string;
  component: ComponentType<ScreenProps>;
  /** The key behind `g` that goes to it. */
  key?: string;
  isInNavigation?: boolean;
  /** True where a name follows in the path, which the screen is given. */
  takesName?: boolean;
  /** The screen of the navigation that it belongs to; default itself. */
  under?: string;
}

export interface ScreenProps {
  /** What stands in the path behind the screen's own: an id; "" where there is none. */
  param: string;
}
