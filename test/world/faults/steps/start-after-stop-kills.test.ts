/** The start of a buffer that was closed in order that is killed at any step: the next one goes on, and nothing acknowledged is lost. */
import { kills, testSteps } from '../step-tests.ts'

testSteps('start after stop', kills)
