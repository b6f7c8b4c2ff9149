/** `pipectl restore` whose disk fails or is full at any step: the next one goes on, and nothing acknowledged is lost. */
import { errors, testSteps } from '../step-tests.ts'

testSteps('restore', errors)
