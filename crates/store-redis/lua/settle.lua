-- Decides what is left, and returns the answer.
for i = 1, #left, 2 do settle_alone(left[i], left[i + 1]) end
if #requests > 0 then
  look(count + 1, #KEYS)
  settle_connected(count)
end

found[#KEYS + 1] = now
for i = 1, #told do found[#KEYS + 1 + i] = told[i] end
return found
