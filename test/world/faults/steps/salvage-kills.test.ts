/** A salvage that is killed at any step: the next start ends with the same one, and nothing more is lost. */
import { kills, testSteps } from '../step-tests.ts'

testSteps('salvage', kills, /^(link|rename|unlink) |quarantine/)
