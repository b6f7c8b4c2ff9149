/** A start that renames segments and is killed at any step: the next one ends with all of them in their places. */
import { kills, testSteps } from '../step-tests.ts'

testSteps('renaming', kills, /^rename .*\d{20}\.db/)
