import type { ComponentType } from "preact";

export interface Screen {
  name: string;
  /** The path after `/console/`; "" for the start page. */
  path: string;
  title: string;
  component: ComponentType<ScreenProps>;
  key?: string;
  isInNavigation?: boolean;
  /** True if a parameter follows in the path. */
  takesName?: boolean;
  /** The navigation entry; default: itself. */
  under?: string;
}

export interface ScreenProps {
  /** The id in the path; "" without one. */
  param: string;
}
