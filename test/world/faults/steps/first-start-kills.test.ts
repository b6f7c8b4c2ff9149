/** The first start of a buffer that is killed at any step: the next one goes on, and nothing acknowledged is lost. */
import { kills, testSteps } from '../step-tests.ts'

testSteps('first start', kills)
