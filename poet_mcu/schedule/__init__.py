"""The planner."""

from poet_mcu.schedule.solve import *
from poet_mcu.schedule.solve import SolveStatus
from poet_mcu.schedule.simulate import *
from poet_mcu.schedule.bounds import largest_working_set

minimum_memory = shortest_deadline = None
from poet_mcu.schedule.baselines import *
from poet_mcu.schedule.limits import *
