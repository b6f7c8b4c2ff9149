/** A start that renames segments on a disk that fails at any step. */
import { errors, testSteps } from '../step-tests.ts'

testSteps('renaming', errors, /^rename .*\d{20}\.db/)
