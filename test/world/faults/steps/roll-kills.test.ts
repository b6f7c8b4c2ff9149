/** A roll to a new segment that is killed at any step: the next one goes on, and nothing acknowledged is lost. */
import { kills, testSteps } from '../step-tests.ts'

testSteps('roll', kills)
