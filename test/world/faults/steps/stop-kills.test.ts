/** A stop of the buffer that is killed at any step: the next one goes on, and nothing acknowledged is lost. */
import { kills, testSteps } from '../step-tests.ts'

testSteps('stop', kills)
