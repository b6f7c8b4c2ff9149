/** A salvage that fails or is killed at any step: the next start ends with the same one, and nothing more is lost. */
import { testSteps } from '../step-tests.ts'

testSteps('salvage', { errors: ['EIO'], always: /^(link|rename|unlink) |quarantine/ })
