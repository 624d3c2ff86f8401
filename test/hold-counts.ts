import { holdCounts } from "millrace/testing";

holdCounts();
