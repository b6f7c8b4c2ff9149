/** A start that sets aside a segment under the name of another, and fails or is killed at any step: nothing is lost. */
import { testSteps } from '../step-tests.ts'

testSteps('misnamed', { always: /^(link|unlink) .*\.3\.db/ })
