/** A salvage whose disk fails at any step: the next start ends with the same one, and nothing more is lost. */
import { testSteps } from '../step-tests.ts'

testSteps('salvage', ['EIO'])
