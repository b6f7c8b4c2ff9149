/** A start that renames segments and fails or is killed at any step: the next one ends with all of them in their places. */
import { testSteps } from '../step-tests.ts'

testSteps('renaming', { always: /^rename .*\d{20}\.db/ })
