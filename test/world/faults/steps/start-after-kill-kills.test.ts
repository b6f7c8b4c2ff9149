/** The start of a buffer after its process was killed that is killed at any step: the next one goes on, and nothing acknowledged is lost. */
import { kills, testSteps } from '../step-tests.ts'

testSteps('start after kill', kills)
